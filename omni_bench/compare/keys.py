"""Comparability keys of a run, what may differ, and where two runs differ."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from omni_bench.compare.views import RunView
from omni_bench.errors import ComparabilityError
from omni_bench.foreign_text import one_line, stated
from omni_bench.records.config import (
    RATE_SEARCH,
    AsrConfig,
    ClientConfig,
    LoadConfig,
    SloConfig,
    TargetConfig,
    is_removed,
)
from omni_bench.records.level import Level, level_value
from omni_bench.report.format import hardware_name
from reference_impl.settings import ServerSettings

# What ends a request that goes wrong (it is a failure then), where a key is kept, and what marks a level:
# none of these changes a valid measurement.
_CLIENT_LIMITS = ("api_key_env", "api_key_header", "connect_timeout_s", "content_types", "max_audio_s")
_CLIENT_LIMITS += ("request_timeout_s", "stall_timeout_s")
_LOAD_MARKS = ("lag_budget_ms", "ray_address", "rotate_levels")
_ASR_KEYS = ("kind", "lead_silence_ms", "tail_silence_ms")
# Where the server happens to listen, what is checked beforehand and how long to wait for it, and what versions and
# commits tell better.
_TARGET_VOLATILE = ("host", "label", "port", "python", "revision", "startup_timeout_s", "stop_timeout_s")
_TARGET_VOLATILE += ("gpus", "probe")
_HEALTH_VOLATILE = ("running", "status", "waiting", "uptime_s")
_NORMALISER = "judge.normaliser"
_HASH = re.compile(r"[0-9a-f]{40,64}")


@dataclass(frozen=True)
class Difference:
    """One name under which two runs, or two arms, differ; None: null, or not recorded."""

    name: str
    before: Any
    after: Any


def comparability_keys(run: Mapping[str, Any]) -> dict[str, Any]:
    """What has to be equal, by name, of a run.json: prompts, load, sampling and client, judge, hardware, data set;
    of a rate search the service level too.

    A setting that an older run does not have counts as its default, which is how that run behaved.
    """
    provenance = run["provenance"]
    prompts, judge, hardware = provenance["prompts"], provenance["judge"], provenance["hardware"]
    keys: dict[str, Any] = {f"prompts.{name}": prompts[name] for name in ("dataset", "locale", "sha256")}
    keys |= _group(provenance, "load", LoadConfig, skip=_LOAD_MARKS)
    keys |= _group(provenance, "client", ClientConfig, skip=_CLIENT_LIMITS)
    if keys["load.kind"] == RATE_SEARCH:  # its answer, and the rates it tries, are of these limits
        keys |= _group(provenance, "slo", SloConfig)
    keys["client.program"] = "omni-bench"
    keys["judge.name"] = judge["name"] if judge else None
    keys["judge.sha256"] = judge["sha256"] if judge else None
    if judge:
        keys[_NORMALISER] = judge.get("normaliser", 1)
        asr = _group(provenance, "asr", AsrConfig)
        keys |= {f"asr.{name}": asr[f"asr.{name}"] for name in _ASR_KEYS}
    keys["hardware.server"] = hardware_name(run)
    keys["hardware.cpu"] = hardware["cpu"]
    keys["hardware.cpu_cores"] = hardware["cpu_cores"]
    keys["hardware.gpus"] = [f"{gpu['name']}, driver {gpu.get('driver')}" for gpu in hardware["gpus"]]
    return keys


def settings_of(run: Mapping[str, Any]) -> dict[str, Any]:
    """What is compared: the configuration of the target and, if it was launched here, of the reference server."""
    provenance = run["provenance"]
    target = provenance["target"]
    found = _group(provenance, "target", TargetConfig, skip=_TARGET_VOLATILE)
    if target["kind"] == "reference":
        found |= _group(provenance, "reference", ServerSettings)
    health = target["description"].get("health")
    if isinstance(health, Mapping):
        # The reference server's own settings are in the configuration already; its weights are not.
        health = stated(dict(health))
        told = ("checkpoint_sha256",) if target["kind"] == "reference" else sorted(health)
        scalars = {name: health.get(name) for name in told if name not in _HEALTH_VOLATILE}
        found |= {
            f"server.{name}": value
            for name, value in scalars.items()
            if value is not None and isinstance(value, (str, int, float))
        }
    return found


def versions_of(run: Mapping[str, Any]) -> dict[str, Any]:
    """Versions and commits, by name."""
    provenance = run["provenance"]
    target, harness, software = provenance["target"], provenance["harness"], provenance["software"]
    found = {
        "target.version": target["version"],
        "target.commit": target["commit"],
        "omni-bench.version": harness["version"],
        "omni-bench.commit": harness["commit"],
        "omni-bench.dirty": harness["dirty"],
        "python": software["python"],
        "platform": software["platform"],
        "cuda": provenance["hardware"]["cuda"],
    }
    found |= {f"package.{name}": version for name, version in software["packages"].items()}
    own = target["description"].get("environment")
    if isinstance(own, Mapping):
        found |= {f"server.package.{name}": version for name, version in (own.get("packages") or {}).items()}
        found["server.python"] = own.get("python")
    return found


@cache
def schema_defaults() -> Mapping[str, Any]:
    """Keys and settings of the configuration, by name, with their defaults."""
    nothing: Mapping[str, Any] = {"config": {}}
    groups = {"load": LoadConfig, "client": ClientConfig, "asr": AsrConfig, "slo": SloConfig}
    groups |= {"target": TargetConfig, "reference": ServerSettings}
    found = {key: value for name, schema in groups.items() for key, value in _group(nothing, name, schema).items()}
    return found | {_NORMALISER: 1}


def as_known_now(stored: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """``stored`` keys or settings of an older omni-bench, with the defaults of those that only ``now`` has.

    A default is how a version behaved that did not know the setting yet.
    """
    defaults = schema_defaults()
    known = {name: value for name, value in stored.items() if not is_removed(name, value)}
    return known | {name: defaults[name] for name in now if name not in stored and name in defaults}


def order_of(run: Mapping[str, Any]) -> dict[str, Any]:
    """What two runs of one pair share, while pairs may differ: with which level they began."""
    return {"load.rotate_levels": (run["provenance"]["config"].get("load") or {}).get("rotate_levels", 0)}


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Difference]:
    """Names whose values are not equal, in the order of ``before``; one that a side lacks counts as None."""
    names = [*before, *(name for name in after if name not in before)]
    pairs = ((name, before.get(name), after.get(name)) for name in names)
    return [Difference(name, first, second) for name, first, second in pairs if _plain(first) != _plain(second)]


def differences_of_all(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> list[Difference]:
    """Names on which each arm agrees with itself, but not with the other arm."""
    found = []
    for name in dict.fromkeys(name for one in (*before, *after) for name in one):
        first, second = ({_plain(one.get(name)) for one in arm} for arm in (before, after))
        if len(first) == len(second) == 1 and first != second:
            found.append(Difference(name, before[0].get(name), after[0].get(name)))
    return found


def shown(value: Any) -> str:
    """A value as it is written in messages and tables, in one line: a hash by its first digits, no text as JSON."""
    if not isinstance(value, str):
        return one_line(_plain(value))
    return value[:12] if _HASH.fullmatch(value) else one_line(value)


def _plain(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def _group(provenance: Mapping[str, Any], name: str, schema: type, skip: Sequence[str] = ()) -> dict[str, Any]:
    """The group ``name`` of the resolved configuration, flat, with the schema's defaults for what is not there."""
    stored = provenance["config"].get(name) or {}
    found = {}
    for field in dataclasses.fields(schema):
        if field.name not in skip:
            found[f"{name}.{field.name}"] = stored.get(field.name, _default(field))
    found |= {f"{name}.{key}": value for key, value in stored.items() if key not in skip}
    return {key: value for key, value in found.items() if not is_removed(key, value)}


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return None if field.default in (dataclasses.MISSING, "???") else field.default


# May these runs be compared at all?


def check_comparable(before: Sequence[RunView], after: Sequence[RunView], *, force: bool = False) -> list[Difference]:
    """The keys that differ, [] if the runs may be compared. Run i of one arm belongs to run i of the other.

    Raises ComparabilityError for arms of different sizes or without runs, copies of one run in an arm, runs without a
    common level, and, unless ``force``, for unequal keys; the message lists each with both values.
    """
    if len(before) != len(after) or not before:
        raise ComparabilityError(
            f"before has {len(before)} runs, after has {len(after)}; runs are compared in pairs, in order: "
            "give as many of each, at least one"
        )
    for name, arm in (("before", before), ("after", after)):
        _refuse_copies(name, arm)
    if not common_concurrencies(before, after):
        found = [{level.concurrency for run in arm for level in run.levels} for arm in (before, after)]
        listed = [[one if isinstance(one, int) else str(one) for one in sorted(arm, key=level_value)] for arm in found]
        searched = any(run.facts.highest_rate is not None for run in (*before, *after))
        only = " (of a rate search, only rates that hold are compared)" if searched else ""
        raise ComparabilityError(
            f"the runs have no concurrency level in common: before {listed[0]}, after {listed[1]}{only}"
        )
    found = _unequal_keys(before, after)
    if found and not force:
        listed = "\n".join(f"  {one.name}: {shown(one.before)} | {shown(one.after)}" for one in found)
        raise ComparabilityError(
            f"the runs cannot be compared: {len(found)} comparability key(s) differ (before | after):\n{listed}\n"
            "make both with the same prompts, load, client, judge and hardware, or look all the same with --force"
        )
    return found


def common_concurrencies(before: Sequence[RunView], after: Sequence[RunView]) -> tuple[Level, ...]:
    """Levels that every run has."""
    levels = [{level.concurrency for level in run.levels} for run in (*before, *after)]
    return tuple(sorted(set.intersection(*levels)))


def _unequal_keys(before: Sequence[RunView], after: Sequence[RunView]) -> list[Difference]:
    found: dict[str, Difference] = {}
    for pair, (first, second) in enumerate(zip(before, after, strict=True), start=1):
        for one in differences(first.keys, second.keys) + differences(first.order, second.order):
            found.setdefault(one.name, one)
        for name, arm, run in (("before", before, first), ("after", after, second)):
            if pair == 1:
                continue
            for one in differences(arm[0].keys, run.keys):
                if one.name not in found:
                    label = f"{one.name} within {name} (runs 1 and {pair})"
                    found.setdefault(label, Difference(label, one.before, one.after))
            for one in differences(_own(arm[0]), _own(run)):
                label = f"{one.name} within {name} (runs 1 and {pair})"
                found.setdefault(label, Difference(label, one.before, one.after))
    return list(found.values())


def _own(run: RunView) -> dict[str, object]:
    """What all runs of one arm share, though the arms may differ in it; a server's counters are none of it."""
    settings = {name: value for name, value in run.settings.items() if not name.startswith("server.")}
    return settings | {name: run.versions.get(name) for name in ("target.version", "target.commit")}


def _refuse_copies(name: str, arm: Sequence[RunView]) -> None:
    for index, run in enumerate(arm):
        for other in arm[:index]:
            if run.started_utc == other.started_utc and run.levels == other.levels:
                raise ComparabilityError(f"{name}: {run.source} is a copy of {other.source}; a run counts once")
