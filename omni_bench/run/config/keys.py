"""The configuration keys for people: name, default, what a key takes, and its explanation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING as NOTHING
from dataclasses import dataclass, fields
from typing import Any, get_type_hints

import yaml
from omegaconf import DictConfig, OmegaConf

from omni_bench.records.config import RunConfig
from omni_bench.run.config.explain import type_name

COLUMN = 39
"""Where the explanations of the help begin."""


@dataclass(frozen=True)
class Key:
    """One key: ``name`` is dotted; ``default`` is the one of the code, before any file of ``scenarios/``."""

    name: str
    default: Any
    takes: str
    explanation: str


def groups() -> dict[str, str]:
    """The names of the config groups, each with its one line."""
    hints = get_type_hints(RunConfig)
    return {item.name: " ".join((hints[item.name].__doc__ or "").split()) for item in fields(RunConfig)}


def config_keys(group: str) -> Iterator[Key]:
    """Every key of a group, in the order of the code."""
    for item in fields(get_type_hints(RunConfig)[group]):
        default = item.default if item.default_factory is NOTHING else item.default_factory()
        name = f"{group}.{item.name}"
        yield Key(name, default, type_name(name) or "", item.metadata.get("help", ""))


def written(value: Any) -> str:
    """A value as it is typed on the command line: ``null``, ``true``, ``[1, 4]``."""
    if OmegaConf.is_config(value):
        value = OmegaConf.to_container(value, resolve=True)
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000, allow_unicode=True, sort_keys=False)
    return text.removesuffix("...\n").strip()


def help_text(config: DictConfig) -> str:
    """Every key with its value in ``config`` and its explanation, group by group, for ``omni-bench run --help``."""
    lines: list[str] = []
    for group, line in groups().items():
        lines += ["", f"{group}: {line}"]
        for key in config_keys(group):
            assignment = f"  {key.name}={written(OmegaConf.select(config, key.name))}"
            if len(assignment) >= COLUMN:
                lines.append(assignment)
                assignment = ""
            lines.append(assignment.ljust(COLUMN) + key.explanation)
    return "\n".join(lines[1:])
