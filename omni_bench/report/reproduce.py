"""The commands that repeat a run: the run itself and, where run.json tells that it came later, its judging."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from omni_bench.foreign_text import code_block
from omni_bench.records.config import AsrConfig

_IMPLIED_KIND = "whisper"
"""The judge that ``omni-bench judge`` takes for a run of asr=none."""


def reproduce_section(run: Mapping[str, Any]) -> str:
    """The command lines to copy, as far as they are on record, and where the configuration is."""
    command = run["provenance"]["command"]
    config = "The resolved configuration is `provenance.config` in run.json."
    if not command:
        return config
    lines = [shlex.join(command)]
    judging = _judge_command(run)
    if judging is not None:
        lines.append(shlex.join(judging))
        config = f"The run had no judge of its own and was judged later; RUN: its folder. {config}"
    return f"{code_block(chr(10).join(lines), 'sh')}\n\n{config}"


def _judge_command(run: Mapping[str, Any]) -> list[str] | None:
    """``omni-bench judge RUN`` with its settings, if the command asked for no judge and the run has one all the same.

    The command of ``omni-bench judge`` is not on record, but the settings that it left in ``provenance.config`` are.
    A run that had a judge from the start and got another one looks like one that had that from the start: None.
    """
    provenance = run["provenance"]
    asked = _overrides(provenance["command"])
    asr = (provenance.get("config") or {}).get("asr") or {}
    without_judge = asked.get("asr.kind", asked.get("asr")) == "none"
    if provenance["judge"] is None or not without_judge or asr.get("kind") in (None, "none"):
        return None
    had = {f"asr.{field.name}": _written(field.default) for field in fields(AsrConfig)} | asked
    had["asr.kind"] = _IMPLIED_KIND
    settings = {f"asr.{name}": _written(value) for name, value in asr.items()}
    changed = [f"{key}={value}" for key, value in settings.items() if had.get(key) != value]
    return ["omni-bench", "judge", "RUN", *changed]


def _overrides(command: Sequence[str]) -> dict[str, str]:
    """``KEY=VALUE`` of a command line; the last of a key counts."""
    return dict(word.split("=", 1) for word in command if "=" in word)


def _written(value: object) -> str:
    """A value of a configuration as one writes it on the command line."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
