"""The words of ``omni-bench ab``: which are of an arm, which of both, and which of the study."""

from __future__ import annotations

import difflib
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from omni_bench.compare.ab.order import ARMS
from omni_bench.compare.stats.verdicts import FULL_PAIRS, StudyPlan
from omni_bench.errors import ConfigError, alternatives, choice
from omni_bench.foreign_text import shorten
from omni_bench.run.config import explain
from omni_bench.run.config.compose import group_options

EXTENDED = 8
MAX_PAIRS = 100
ON, OFF = "on", "off"
GIT, WHEEL = "git:", ".whl"
_SHORT = {"command": "target.command", "health_path": "target.health_path"}
"""Keys of an arm that need no group: ``before.command=...``."""
_SETTINGS = ("pairs", "extend", "looks", "restart", "judging", "seed")
"""Keys of the study itself."""


class Restart(StrEnum):
    """When a server is started anew: for each run, for each pair, or never within a study."""

    RUN = "run"
    PAIR = "pair"
    NEVER = "never"


class Judging(StrEnum):
    """Where runs are judged: beside the next one, if there are cores to spare, or each in its place."""

    BESIDE = "beside"
    IN_PLACE = "in_place"


@dataclass(frozen=True)
class ArmWords:
    """One arm as it was typed. ``source``: a git ref or wheel to make an environment from, None for this one.

    ``overrides``: Hydra's, of this arm alone. ``typed``: the words themselves.
    """

    name: str
    source: str | None
    overrides: tuple[str, ...]
    typed: tuple[str, ...]


@dataclass(frozen=True)
class StudyWords:
    """The whole study as it was typed. ``shared``: Hydra's overrides of both arms."""

    arms: tuple[ArmWords, ArmWords]
    shared: tuple[str, ...]
    plan: StudyPlan
    seed: int
    restart: Restart = Restart.RUN
    judging: Judging = Judging.BESIDE


def read_words(words: Sequence[str]) -> StudyWords:
    """Sort the words. Raises ConfigError for one that cannot be read, or if an arm has none."""
    of_arms: dict[str, list[tuple[str, str]]] = {name: [] for name in ARMS}
    settings: dict[str, str] = {}
    shared = []
    for word in words:
        key, equals, value = word.partition("=")
        arm, dot, rest = key.partition(".")
        if arm in ARMS and equals and (rest or not dot):
            of_arms[arm].append((rest, value))
        elif key in _SETTINGS and equals:
            settings[key] = value
        elif equals and arm not in ARMS and (near := _near(arm, ARMS if dot else (*ARMS, *_SETTINGS))):
            raise ConfigError(f"{word}: did you mean {near}? Keys of a study: {', '.join((*ARMS, *_SETTINGS))}")
        elif key == "output.root":
            raise ConfigError(f"{word}: the runs of a study lie in its own folder; --out FOLDER names it")
        elif arm not in ARMS and (equals or word.startswith("~")):
            shared.append(word)
        else:
            raise ConfigError(
                f"{word!r}: not KEY=VALUE; give before=TARGET after=TARGET, before.KEY=VALUE after.KEY=VALUE, "
                "pairs=N, and overrides of both arms such as scenario=smoke"
            )
    if not any(of_arms.values()):
        raise ConfigError(
            "nothing to compare: give before=TARGET after=TARGET (a URL, git:REF, a wheel, or a target such as "
            "reference), or before.KEY=VALUE after.KEY=VALUE, such as after.reference.predictor=reprefill"
        )
    seed = _whole("seed", settings["seed"], 0, 2**32) if "seed" in settings else random.SystemRandom().randrange(2**32)
    arms = tuple(_arm(name, of_arms[name]) for name in ARMS)
    restart = settings.get("restart", Restart.RUN)
    choice("restart", restart, tuple(Restart))
    judging = settings.get("judging", Judging.BESIDE)
    choice("judging", judging, tuple(Judging))
    return StudyWords((arms[0], arms[1]), tuple(shared), _plan(settings), seed, Restart(restart), Judging(judging))


def _near(typed: str, valid: Sequence[str]) -> str | None:
    """The key that was mistyped. Stricter than for other texts: a key of no study is one of a run."""
    return next(iter(difflib.get_close_matches(typed, valid, n=1, cutoff=0.75)), None)


def more_pairs(words: Sequence[str]) -> int | None:
    """N of the one word ``pairs=N`` that may stand beside ``--resume``; None without it. Raises ConfigError."""
    if not words:
        return None
    key, _, value = words[0].partition("=")
    if len(words) > 1 or key != "pairs":
        raise ConfigError("--resume goes on with a study as it was begun: beside it, only pairs=N may stand")
    return _whole("pairs", value, 1, MAX_PAIRS)


def _plan(settings: dict[str, str]) -> StudyPlan:
    """``pairs`` and what they are extended to: 8 for a full study, none for a quick advisory one or a long one."""
    looks = settings.get("looks", ON)
    choice("looks", looks, (ON, OFF))
    pairs = _whole("pairs", settings.get("pairs", str(FULL_PAIRS)), 1, MAX_PAIRS)
    early = looks == ON
    text = settings.get("extend")
    if text is None:
        return StudyPlan(pairs, EXTENDED if FULL_PAIRS <= pairs < EXTENDED else None, early=early)
    if text == OFF:
        return StudyPlan(pairs, None, early=early)
    extended = _whole("extend", text, 0, MAX_PAIRS, f", or {OFF}")
    if extended <= pairs:
        raise ConfigError(f"extend={text}: more than pairs={pairs}, or {OFF}")
    return StudyPlan(pairs, extended, early=early)


def _arm(name: str, words: Sequence[tuple[str, str]]) -> ArmWords:
    source = None
    overrides: list[str] = []
    typed = []
    targets = [value for key, value in words if not key]
    if len(targets) > 1:
        raise ConfigError(f"{name}={targets[1]}: {name} is given twice (the other is {targets[0]})")
    for key, value in words:
        typed.append(f"{name}.{key}={value}" if key else f"{name}={value}")
        if key:
            overrides += [f"{_SHORT[key]}={quoted(value)}"] if key in _SHORT else [f"{key}={value}"]
        elif re.match(r"https?://", value, re.IGNORECASE):
            overrides += ["target=external", f"target.url={quoted(value)}"]
        elif value.startswith(GIT) or value.endswith(WHEEL):
            source = value
        elif value in (options := group_options("target")):
            overrides.append(f"target={value}")
        else:
            raise ConfigError(
                f"{name}={value!r}: neither http://URL, git:REF, the path of a wheel (.whl), nor a target"
                + alternatives(value, options, "targets")
            )
    keys = {key for key, _ in words}
    if "command" in keys and not any(one.startswith("target=") for one in overrides):
        overrides.insert(0, "target=command")
    return ArmWords(name, source, tuple(overrides), tuple(typed))


def quoted(text: str) -> str:
    """``text`` as a quoted string of Hydra's override grammar, in which nothing is special but interpolation.

    A backslash counts only before a quote, and before ``${``.
    """
    return explain.quoted(re.sub(r"(\\*)\$\{", lambda found: found[1] * 2 + "\\${", text))


def _whole(key: str, text: str, least: int, most: int, more: str = "") -> int:
    whole = re.fullmatch(r"0*(\d{1,12})", text, re.ASCII)
    if whole is None or not least <= int(whole[1]) <= most:
        raise ConfigError(f"{key}={shorten(text, 80)}: a whole number, {least} to {most}{more}")
    return int(whole[1])
