"""From the words of an arm to its resolved configuration."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from omni_bench.compare.ab.sources import Source, find_source
from omni_bench.compare.ab.words import ArmWords, StudyWords, quoted
from omni_bench.errors import ConfigError
from omni_bench.load.closed_plan import measured_requests
from omni_bench.records.config import CLOSED_LOOP, OPEN_LOOP, RATE_SEARCH, RunConfig
from omni_bench.run.config.compose import compose, from_stored

FREE_GROUPS = ("target", "reference")
FREE_KEYS = ("client.api_key_env", "client.api_key_header")
"""What the arms may differ in: the server. Anything else would compare two measurements, not two servers."""

MAX_KEPT = 128
"""Answers of one run, about 20 MB of WAV."""
Build = Callable[[Source], Path]


@dataclass(frozen=True)
class StudyArm:
    """One side of a study. ``overrides``: all of its configuration's; ``title``: what the user called it.

    ``source``: what its environment was made from, None for the one that omni-bench runs in.
    """

    name: str
    title: str
    overrides: tuple[str, ...]
    config: RunConfig
    source: Source | None

    @property
    def fresh(self) -> bool:
        """Whether each run gets a server of its own."""
        return self.config.target.kind != "external"

    @property
    def run_command(self) -> tuple[str, ...]:
        """What repeats one of its runs; empty for one in an environment of its own, which only the study makes."""
        if self.source is not None:
            return ()
        return "omni-bench", "run", *(one for one in self.overrides if not one.startswith("target.label="))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StudyArm:
        """An arm of ab.json. Raises ConfigError for a configuration that is no longer valid."""
        source = data["source"]
        return cls(
            name=data["name"],
            title=data["title"],
            overrides=tuple(data["overrides"]),
            config=from_stored(data["config"]),
            source=None if source is None else Source(**source),
        )


def resolve_arms(words: StudyWords, folder: Path, build: Build) -> tuple[StudyArm, StudyArm]:
    """Compose both arms; ``build`` gives the interpreter of a source, and is asked once all else is known to be right.

    ``folder``: to which sources are relative. Raises ConfigError, also if the arms differ in more than the server,
    and what ``build`` raises.
    """
    sources = [find_source(one.source, folder) if one.source is not None else None for one in words.arms]
    pairs = list(zip(words.arms, sources, strict=True))
    shared = words.shared
    drafts = [compose(_overrides(shared, one, source, None)) for one, source in pairs]
    if keeps_all_audio(drafts[0]) and not any(word.startswith("output.save_audio=") for word in shared):
        shared = (*shared, "output.save_audio=all")  # so that what after says wrong can be heard from before too
        drafts = [replace(draft, output=replace(draft.output, save_audio="all")) for draft in drafts]
    for (one, source), config in zip(pairs, drafts, strict=True):
        if source is not None and config.target.kind == "external":
            raise ConfigError(f"{one.name}: {source.title} is a server to launch, but its target is an URL")
    _check_equal(drafts[0], drafts[1])
    arms = []
    for one, source in pairs:
        python = str(build(source)) if source is not None else None
        overrides = _overrides(shared, one, source, python)
        arms.append(StudyArm(one.name, _title(one, source), overrides, compose(overrides), source))
    return arms[0], arms[1]


def keeps_all_audio(config: RunConfig) -> bool:
    """Whether a run has so few answers (:data:`MAX_KEPT`) that all of them can be kept."""
    load = config.load
    if load.kind == CLOSED_LOOP:
        return measured_requests(load) <= MAX_KEPT
    known = load.kind == OPEN_LOOP and load.duration_s is None
    return known and load.requests_per_level * len(load.rate_hz) <= MAX_KEPT


def same_server(before: StudyArm, after: StudyArm) -> bool:
    """Whether the arms are the same in all that is configured: an A/A study."""
    configs = [asdict(arm.config) for arm in (before, after)]
    for config in configs:
        config["target"] |= {"label": None}
    return configs[0] == configs[1]


def rotated(config: RunConfig, pair: int) -> RunConfig:
    """The configuration of a run of pair ``pair`` (from 1): each pair begins with the next level."""
    first = (config.load.rotate_levels + pair - 1) % (_levels(config) or 1)
    return replace(config, load=replace(config.load, rotate_levels=first))


def level_in_turn(config: RunConfig, turn: int) -> int:
    """The number (from 0, as configured) of the level that a run measures in ``turn`` (from 0).

    Where the levels are not known before, as of a rate search, they are counted as they come.
    """
    levels = _levels(config)
    return turn if levels is None else (turn + config.load.rotate_levels) % levels


def _levels(config: RunConfig) -> int | None:
    """How many levels a run has; None if each depends on those before."""
    if config.load.kind == RATE_SEARCH:
        return None
    return len(config.load.concurrency if config.load.kind == CLOSED_LOOP else config.load.rate_hz) or None


def _overrides(shared: Sequence[str], words: ArmWords, source: Source | None, python: str | None) -> tuple[str, ...]:
    own = list(words.overrides)
    if source is not None:
        own.append(f"target.revision={source.revision}")
    if python is not None:
        own.append(f"target.python={quoted(python)}")
    return (*shared, *own, f"target.label={quoted(f'{words.name}: {_title(words, source)}')}")


def _title(words: ArmWords, source: Source | None) -> str:
    """``git:main (0123456789ab)``, ``reference.predictor=reprefill``, or the word for nothing special."""
    prefix = f"{words.name}."
    rest = [word.removeprefix(prefix).removeprefix(f"{words.name}=") for word in words.typed]
    if source is not None:
        rest = [source.title, *(one for one in rest if one != words.source)]
    return " ".join(rest) or "as configured for both"


def _check_equal(before: RunConfig, after: RunConfig) -> None:
    first, second = _flat(asdict(before)), _flat(asdict(after))
    unequal = [
        f"  {name}: {json.dumps(first.get(name))} | {json.dumps(second.get(name))}"
        for name in dict.fromkeys((*first, *second))
        if first.get(name) != second.get(name) and name not in FREE_KEYS and name.partition(".")[0] not in FREE_GROUPS
    ]
    if unequal:
        raise ConfigError(
            f"the arms may differ in {', '.join(f'{group}.*' for group in FREE_GROUPS)} and {', '.join(FREE_KEYS)} "
            "alone, or two measurements would be compared; these differ (before | after):\n" + "\n".join(unequal)
        )


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{group}.{name}": value for group, values in config.items() for name, value in values.items()}
