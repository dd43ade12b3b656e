"""Numbers and texts for people: units, n/a for what is missing, and markdown that cannot be broken out of."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from omni_bench.foreign_text import one_field
from omni_bench.load.clients.openai_chat_audio import AUDIO, TEXT
from omni_bench.metrics.metric import Metric
from omni_bench.targets.reference import injected_fault

UNKNOWN_CPU = "CPU (model unknown)"
NA = "n/a"


def number(value: float | None, digits: int = 3) -> str:
    """``value`` to ``digits`` significant digits but with all digits before the point; n/a for None.

    1234.5 -> "1234", 12.345 -> "12.3", 0.12345 -> "0.123" (three digits). Nine decimals at most: what is not zero is
    never shown as zero, so that 1e-12 -> "< 0.000000001".
    """
    if value is None or not math.isfinite(value):
        return NA
    if value == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(value)))
    decimals = max(digits - 1 - magnitude, 0)
    if magnitude < -9:
        return "< 0.000000001" if value > 0 else "> -0.000000001"
    return f"{value:.{min(decimals, 9)}f}"


def fixed(value: float | None, decimals: int) -> str:
    """``value`` with a fixed number of decimals; n/a for None."""
    return NA if value is None or not math.isfinite(value) else f"{value:.{decimals}f}"


def probability(value: float | None) -> str:
    """A probability to two digits, "< 0.0001" for what is smaller; n/a for None."""
    return "< 0.0001" if value is not None and 0 <= value < 1e-4 else number(value, 2)


def p_text(p: float) -> str:
    """``p = 0.0078``, ``p < 0.0001``."""
    text = probability(p)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def milliseconds(value: float | None) -> str:
    """Milliseconds: one decimal below 100, none above; more where that would show 0 for what is not (0.012)."""
    if value and abs(value) < 0.05:
        return number(value, 2)
    return fixed(value, 1 if value is not None and abs(value) < 99.95 else 0)


def percent(fraction: float | None) -> str:
    """A fraction of JSON as the percentage that people read: 0.0123 -> "1.23 %".

    Neither none nor all of something is claimed by rounding: "< 0.01 %" and "> 99.99 %".
    """
    shown = fixed(None if fraction is None else 100 * fraction, 2)
    if shown == "0.00" and fraction:
        return "< 0.01 %"
    if shown == "100.00" and fraction is not None and fraction < 1:
        return "> 99.99 %"
    return shown if shown == NA else f"{shown} %"


def metric_text(metric: Metric, value: float | None) -> str:
    """A value of a metric in the digits that tables give it; n/a for None."""
    if metric.percent:
        return percent(value)
    if metric.unit == "ms":
        return milliseconds(value)
    if metric.unit.endswith("/s") and value and value < 0.1:  # one long request a minute is not none
        return number(value, 2)
    return fixed(value, metric.digits)


def signed(value: float | None, decimals: int) -> str:
    """``value`` with its sign; n/a for None.

    Three more decimals at most where these would show nothing of it: a change of 0.04 is "+0.04", not "+0.0". What is
    smaller still is "+0.0", never "-0.0".
    """
    if value is None or not math.isfinite(value):
        return NA
    for more in range(4):
        if float(f"{abs(value):.{decimals + more}f}"):
            return f"{value:+.{decimals + more}f}"
    return f"{0:+.{decimals}f}"


def signed_percent(fraction: float | None) -> str:
    """A change, such as 0.081, as ``+8.1 %``; n/a for None."""
    shown = signed(None if fraction is None else 100 * fraction, 1)
    return shown if shown == NA else f"{shown} %"


def change_text(metric: Metric, fraction: float | None) -> str:
    """A change of a metric: ``+8.1 %``, of a share of requests ``+12.5 points``; n/a for None."""
    shown = signed_percent(fraction)
    return shown.replace(" %", " points") if metric.points else shown


def count(value: int | None) -> str:
    """A count; n/a for None."""
    return NA if value is None else str(value)


def pair(first: str, second: str) -> str:
    """Two figures in one cell; one n/a if both are missing."""
    return NA if first == second == NA else f"{first} / {second}"


def server_says(run: Mapping[str, Any], name: str) -> str | None:
    """A text that the server's /health stated under ``name``, in one short line; None if it did not, or not as text."""
    health = run["provenance"]["target"]["description"].get("health")
    value = health.get(name) if isinstance(health, Mapping) else None
    return one_field(value) if isinstance(value, str) and value else None


def target_name(run: Mapping[str, Any]) -> str:
    """What was measured, in a few words: kind, and the model that the server names."""
    target = run["provenance"]["target"]
    model = server_says(run, "model") or (run["provenance"]["config"].get("client") or {}).get("model")
    kind = one_field(target["kind"])
    return f"{kind} ({one_field(model)})" if isinstance(model, str) and model else kind


def hardware_name(run: Mapping[str, Any]) -> str:
    """The card or CPU that the server ran on, "unknown hardware" if an external server does not say.

    The server's own word (``device_name`` of its /health) goes first; a server launched
    here ran on this machine.
    """
    provenance = run["provenance"]
    target, hardware = provenance["target"], provenance["hardware"]
    device_name, device = server_says(run, "device_name"), server_says(run, "device")
    if device_name and device_name != "cpu":
        return device_name
    if target["kind"] == "external":
        return UNKNOWN_CPU if device_name == "cpu" else "unknown hardware"
    if hardware["gpus"] and device_name != "cpu" and not (device or "").startswith("cpu"):
        return one_field(hardware["gpus"][0]["name"])
    return cpu_name(hardware["cpu"], hardware["cpu_cores"])


def cpu_name(model: str | None, cores: int | None) -> str:
    """What stands for a CPU and the cores that this process may use of it."""
    return f"{one_field(model or UNKNOWN_CPU)}{f', {cores} cores' if cores else ''}"


def injected_faults(run: Mapping[str, Any]) -> list[str]:
    """The faults that were switched on for this run, in the server or at the wire; [] if it was left alone."""
    faults, target = [], run["provenance"]["target"]
    if (inside := injected_fault(target["kind"], target["description"].get("health"))) is not None:
        faults.append(f"reference.fault={one_field(inside)}")
    wire = target["description"].get("chaos")
    if isinstance(wire, Mapping) and wire.get("name"):
        faults.append(f"target.chaos={one_field(wire['name'])}")
    return faults


def stated_fault(run: Mapping[str, Any]) -> str | None:
    """What a server that is not ours says of a fault of its own; None if it says nothing of the kind."""
    target = run["provenance"]["target"]
    if injected_fault(target["kind"], target["description"].get("health")) is not None:
        return None
    said = server_says(run, "fault")
    return None if said is None else f"the server says: fault {said}"


def prompt_counts(prompts: Mapping[str, Any]) -> str:
    """``32 measured and 16 warm-up``; runs of schema 1.0 only have the sum."""
    if not {"measured", "warmup"} <= prompts.keys():
        return str(prompts["count"])
    return f"{prompts['measured']} measured and {prompts['warmup']} warm-up"


# ---- Requested modalities of a run ----


def has_audio(run: Mapping[str, Any]) -> bool:
    """Whether audio was asked for: always, but for a chat of text alone."""
    return AUDIO in modalities(run)


def has_text(run: Mapping[str, Any]) -> bool:
    """Whether text was asked for: in a chat only."""
    return TEXT in modalities(run)


def modalities(run: Mapping[str, Any]) -> tuple[str, ...]:
    """What was asked for, by run.json's own configuration; audio of a run that does not say (speech)."""
    client = (run.get("provenance") or {}).get("config", {}).get("client") or {}
    return tuple(client.get("modalities") or (AUDIO,))
