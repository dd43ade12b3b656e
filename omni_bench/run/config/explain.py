"""One clear sentence for each way in which a configuration can be wrong.

Hydra and OmegaConf report what went wrong inside them; a person who mistyped a key wants
the bad value, where it came from and the valid ones.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    InterpolationResolutionError,
    MissingMandatoryValue,
    ValidationError,
)
from yaml import YAMLError

from omni_bench.errors import ConfigError, alternatives, natural
from omni_bench.records.config import RunConfig


def explain(error: BaseException, scenarios: Sequence[str] = ()) -> ConfigError:
    """The ConfigError that says what ``error`` (of Hydra, OmegaConf or YAML) means for the user.

    ``scenarios``: their names, for one that is given without its key.
    """
    chain = list(_chain(error))
    place = _place(chain)
    for link in chain:
        if isinstance(link, MissingConfigException):
            return ConfigError(place + _missing_option(link))
        if isinstance(link, OverrideParseException):
            return ConfigError(_unreadable(str(link.override), _first_line(link.message), scenarios))
        if isinstance(link, YAMLError):
            return ConfigError(f"{place}not valid YAML: {' '.join(str(link).split())}")
        if isinstance(link, (ConfigKeyError, ConfigAttributeError)):
            return ConfigError(place + unknown_key(str(link.full_key or link.key or "")))
        if isinstance(link, ValidationError):
            return ConfigError(place + _wrong_type(link, chain))
        if isinstance(link, MissingMandatoryValue):
            return ConfigError(f"{place}{link.full_key or 'a key'} has no value and needs one")
        if isinstance(link, InterpolationResolutionError):
            key = link.full_key or "a key"
            return ConfigError(f"{place}{key}: {_first_line(str(link))}; {_NO_REFERENCE}")
    reason = _first_line(str(chain[-1]))
    outer = " ".join(str(error).split())
    said = outer if reason in outer else f"{outer}: {reason}"
    return ConfigError(f"{said}; {_NO_REFERENCE}" if "${" in outer else said)


def _unreadable(override: str, message: str, scenarios: Sequence[str]) -> str:
    """An override that is not in Hydra's grammar: what was meant, if that can be told, and how to write it."""
    key, equals, value = override.partition("=")
    if not equals:
        if "." in override and type_name(override) is not None:
            return f"{override!r} has no value; valid: {override}=VALUE"
        near = difflib.get_close_matches(override, scenarios, n=1, cutoff=0.6)
        if near:
            return f"{override!r} is no KEY=VALUE; did you mean scenario={near[0]}?"
        listed = ", ".join(sorted(scenarios, key=natural))
        return f"{override!r} is no KEY=VALUE; a scenario is named by scenario=NAME{listed and f', one of {listed}'}"
    if any(get_origin(one) in (list, dict) for one in either(annotation_of(key)[0])):
        rule = "texts with brackets, '=' or commas in it need single quotes"
        return f"cannot read the override '{override}' ({message}): {key} takes {type_name(key)}; {rule}"
    meant = f"{key}={quoted(_bare(value).replace('${', chr(92) + '${'))}"
    try:
        OverridesParser.create().parse_override(meant)
    except HydraException:
        return f"cannot read the override '{override}': {message}"
    why = f"cannot read the override '{override}' ({message})"
    return f"{why}: its value needs quotes, and these need some: {pasted(meant)}"


def _bare(value: str) -> str:
    """Without quotes around it, also those that a shell has passed on with their backslashes."""
    return re.fullmatch(r"(\\?'|)(.*)\1", value, re.DOTALL)[2]  # type: ignore[index]  # it always fits


def quoted(text: str) -> str:
    """``text`` in single quotes of Hydra's grammar."""
    return QuotedString(text=text, quote=Quote.single).with_quotes()


def pasted(word: str) -> str:
    """``word`` with the quotes that a shell needs."""
    return f'"{word}"' if not set('"$`\\!') & set(word) else shlex.quote(word)


def valid_keys(dotted: str) -> tuple[str, list[str]]:
    """The longest known prefix of ``dotted`` and the keys valid below it.

    >>> valid_keys("load.concurency")[0]
    'load'
    """
    node: Any = RunConfig
    known: list[str] = []
    for part in [part for part in dotted.split(".") if part]:
        hints = get_type_hints(node)
        if part not in hints or not is_dataclass(hints[part]):
            break
        known.append(part)
        node = hints[part]
    return ".".join(known), [item.name for item in fields(node)]


def unknown_key(dotted: str) -> str:
    """The message for a key that the schema does not have."""
    if dotted.split(".")[0] == "hydra":
        return f"unknown key '{dotted}'; Hydra's own keys: omni-bench run --cfg hydra"
    prefix, valid = valid_keys(dotted)
    first = dotted[len(prefix) + 1 if prefix else 0 :].split(".")[0]
    if first in valid:
        return f"unknown key '{dotted}': {prefix + '.' if prefix else ''}{first} has no keys below it"
    label = f"valid keys of {prefix}" if prefix else "valid top-level keys"
    if not prefix and (meant := [f"{group}.{first}" for group in valid if first in valid_keys(group)[1]]):
        return f"unknown key '{dotted}'; did you mean {' or '.join(meant)}?"
    return f"unknown key '{dotted}'{alternatives(first, valid, label)}"


def type_name(dotted: str) -> str | None:
    """What a key takes, in words (``list of integers``), or None for a key outside the schema."""
    if dotted == valid_keys(dotted)[0]:
        return "a group of keys"
    annotation, below = annotation_of(dotted)
    if below and get_origin(annotation) is dict:
        annotation = get_args(annotation)[1]
    elif dotted.endswith("]") and get_origin(annotation) is list:
        annotation = get_args(annotation)[0]
    return None if annotation is None else _words(annotation)


def annotation_of(dotted: str) -> tuple[Any, str]:
    """The type of a key, None for a group and for one outside the schema, and what ``dotted`` names below that key."""
    prefix, names = valid_keys(dotted)
    leaf, _, below = dotted[len(prefix) + 1 if prefix else 0 :].partition(".")
    leaf = leaf.split("[")[0]
    if leaf not in names or (not prefix and not leaf):
        return None, ""
    node: Any = RunConfig
    for part in prefix.split(".") if prefix else []:
        node = get_type_hints(node)[part]
    return get_type_hints(node)[leaf], below


def either(annotation: Any) -> tuple[Any, ...]:
    """What a key may be: itself, or each of a union."""
    return get_args(annotation) if get_origin(annotation) is Union else (annotation,)


def _words(annotation: Any) -> str:
    simple = {int: "an integer", float: "a number", bool: "true or false", str: "a string"}
    if annotation in simple:
        return simple[annotation]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Union:
        inner = [_words(item) for item in arguments if item is not type(None)]
        words = " or ".join(inner)
        return f"{words}, or null" if type(None) in arguments else words
    if origin is list:
        return "a list of integers, such as [1,4,16]" if arguments == (int,) else "a list"
    if origin is dict:
        return "a mapping, such as {key: value}"
    return "a value"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and its causes; the outermost first, but a bare wrapper never hides its cause."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _place(chain: list[BaseException]) -> str:
    """``"in scenario/mine.yaml: "`` where Hydra names the file it was reading."""
    for link in chain:
        found = re.match(r"In '([^']+)'", str(link))
        if found and found.group(1) != "config":
            return f"in {found.group(1)}.yaml: "
        where = getattr(getattr(link, "problem_mark", None), "name", None)
        if where:
            return f"in {where}: "
    return ""


def _missing_option(error: MissingConfigException) -> str:
    """An option of a group that does not exist, with those that do."""
    missing = str(error.missing_cfg_file or "")
    group, _, option = missing.rpartition("/")
    options = list(error.options or [])
    if not options:
        return _first_line(str(error)) if not group else f"{group}={option}: there is no config group '{group}'"
    return f"unknown {group} '{option}'{alternatives(option, options)}"


_NO_REFERENCE = (
    "${ stands for the value of another key; for itself, in a text, it is written \\${, within the shell's single "
    "quotes: 'client.voice=\\${x}'"
)


def _wrong_type(error: ValidationError, chain: list[BaseException]) -> str:
    dotted = str(error.full_key or error.key or "")
    wanted = type_name(dotted)
    # The override as typed is the clearest name for the bad value.
    typed = next((found.group(1) for link in chain if (found := _OVERRIDE.match(str(link)))), None)
    what = (typed and typed.lstrip("+")) or f"{dotted}: {_first_line(str(error))}"
    return f"{what}: {dotted} takes {wanted}" if wanted else what


_OVERRIDE = re.compile(r"Error merging override (.+)")


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), text)
