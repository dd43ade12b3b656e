"""What a server's own /metrics say of a run: scraped before and after, kept as differences.

The names are the server's (``vllm_omni:audio_ttfp_s``, ``vllm:num_preemptions``) and so are the definitions: its RTF
is a stage's time over the duration, not the client's. Warm-up requests are in them too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from omni_bench.errors import shorten
from omni_bench.records.api_key import ApiKey
from omni_bench.targets.probe import MAX_BODY_BYTES, get

SCRAPE_TIMEOUT_S = 5.0
MAX_SERIES = 300
MAX_LABEL_CHARS = 80
MAX_VALUE, EXACT_BELOW = 2**63, 2**53
"""Of a series; and up to where a double, which most readers of JSON have, counts exactly."""
PARSE_ERRORS = (ValueError, KeyError, IndexError)  # what the parser raises for text that is no exposition
_DISTRIBUTIONS = ("histogram", "summary")
_OF_THE_PROCESS = ("python_", "process_")
_PREEMPTED = "preempt"
_OF_SPEECH = re.compile("audio|speech|ttfp|first_packet")


@dataclass(frozen=True)
class ServerSeries:
    """One series: ``kind`` of its family; ``values`` by the ending of its samples (``total``, ``count``, ``sum``).

    NaN is one that cannot be calculated with: the series has no difference then.
    """

    kind: str
    values: Mapping[str, float]


@dataclass(frozen=True)
class Scrape:
    """``series`` by name and labels; ``problem``: why there are none, None if all went well.

    ``bad_lines``: lines that are in no form of Prometheus'; the rest is there.
    ``is_cut``: the answer was longer than what is read of it, so that a series that is not there may yet exist.
    """

    series: Mapping[str, ServerSeries]
    problem: str | None = None
    is_cut: bool = False
    bad_lines: tuple[str, ...] = ()


def scrape(base_url: str, key: ApiKey | None = None) -> Scrape:
    """GET ``/metrics``, its first MiB within a few seconds. Never raises: what went wrong is in ``problem``.

    Of an answer that is longer, the lines and the series that came whole.
    """
    answer = get(f"{base_url}/metrics", SCRAPE_TIMEOUT_S, key)
    if answer.status != 200:
        return Scrape({}, answer.problem or f"HTTP {answer.status}")
    text = answer.text()
    is_cut = len(answer.body) >= MAX_BODY_BYTES
    if is_cut:  # half a line may be half a number
        text = text[: text.rfind("\n") + 1]
    bad_lines: tuple[str, ...] = ()
    try:
        series = parse(text)
    except PARSE_ERRORS as error:
        text, bad_lines = without_bad_lines(text)
        try:
            series = parse(text)
        except PARSE_ERRORS:
            series = {}
        if not series:
            return Scrape({}, f"not in Prometheus' text form: {shorten(str(error), 80)}")
    if is_cut:  # within a series too: a count whose sum did not come
        series = {name: one for name, one in series.items() if one.kind not in _DISTRIBUTIONS or len(one.values) > 1}
    return Scrape(series, is_cut=is_cut, bad_lines=bad_lines)


def without_bad_lines(text: str) -> tuple[str, tuple[str, ...]]:
    """``text`` without the lines that cannot be read by themselves or say a family's type again, and those lines."""
    kept, bad, said = [], [], set()
    for line in text.splitlines():
        about = tuple(line.split(None, 3)[:3])
        if line.startswith("#"):
            (bad if about in said else kept).append(line)
            said.add(about)
            continue
        try:
            list(text_string_to_metric_families(line + "\n"))
        except PARSE_ERRORS:
            bad.append(line)
        else:
            kept.append(line)
    return "\n".join(kept) + "\n", tuple(bad)


def parse(text: str) -> dict[str, ServerSeries]:
    """The series of an exposition by ``name{label="value"}``; buckets, creation times and the process's own left out.

    Raises ValueError and others for text that is no exposition.
    """
    found: dict[str, dict[str, float]] = {}
    kinds: dict[str, str] = {}
    for family in text_string_to_metric_families(text):
        if family.name.startswith(_OF_THE_PROCESS) or family.name.endswith("_created"):
            continue
        for name, ending, value in _samples(family):
            found.setdefault(name, {})[ending] = value
            # OpenMetrics names a family without the ending of its samples, which this parser takes for another
            kinds[name] = "counter" if family.type == "unknown" and family.name.endswith("_total") else family.type
    return {name: ServerSeries(kinds[name], values) for name, values in found.items()}


def _samples(family: Metric) -> Iterator[tuple[str, str, float]]:
    for sample in family.samples:
        ending = sample.name.removeprefix(family.name).lstrip("_")
        if ending in ("created", "bucket") or "quantile" in sample.labels:
            continue
        labels = ",".join(f'{key}="{shorten(text, MAX_LABEL_CHARS)}"' for key, text in sorted(sample.labels.items()))
        yield family.name + (f"{{{labels}}}" if labels else ""), ending, _usable(sample.value)


def _usable(value: float) -> float:
    """A number that one can calculate with and that every reader of JSON can hold, else NaN (a "no limit", mostly)."""
    return math.nan if not abs(value) < MAX_VALUE else float(value) if abs(value) >= EXACT_BELOW else value


def differences(before: Scrape, after: Scrape) -> dict[str, Any]:
    """What happened between two scrapes, as plain types for run.json.

    ``series``, those of speech first: of a counter its ``increase``, of a histogram or summary ``count``, ``sum`` and
    ``mean`` of what was observed in between, of anything else the value ``before`` and ``after``. What did not move is
    left out, so is a number that run.json cannot hold, and a counter that went back (null: the server was started
    anew). ``left_out``: series beyond the
    limit. ``cut``: which of the two answers was too long to be read whole, in words, None if neither; a series that
    came in one of them only is then left out, as its value in the other is unknown.
    """
    problem = after.problem or before.problem
    cut = _cut(before, after)
    if problem is not None:
        return {"problem": problem, "series": {}, "left_out": 0, "cut": cut}
    moved = {}
    for name, series in sorted(after.series.items(), key=lambda one: (not of_speech(one[0]), one[0])):
        if before.is_cut and name not in before.series:
            continue
        entry = _difference(series, before.series.get(name))
        if entry is not None:
            moved[name] = entry
    kept = dict(list(moved.items())[:MAX_SERIES])
    return {"problem": None, "series": kept, "left_out": len(moved) - len(kept), "cut": cut}


def of_speech(series: str) -> bool:
    """Whether the name of a series says that it is of speech, whatever its labels say."""
    return _OF_SPEECH.search(series.partition("{")[0]) is not None


def observed(before: Scrape, after: Scrape, family: str) -> tuple[int, float] | None:
    """How often a histogram, all its labels together, observed something in between, and the mean of that.

    None if it did not, if it is not there, or if the server was started anew meanwhile.
    """
    series = [name for name in after.series if name.partition("{")[0] == family]
    found = [_difference(after.series[name], before.series.get(name)) for name in series]
    moved = [one for one in found if one is not None]
    if before.problem or not moved or any(one.get("count") is None for one in moved):
        return None
    count, total = (sum(one[key] or 0.0 for one in moved) for key in ("count", "sum"))
    return (round(count), total / count) if count < EXACT_BELOW else None


def _cut(before: Scrape, after: Scrape) -> str | None:
    which = [name for name, one in (("before", before), ("after", after)) if one.is_cut]
    parts = []
    if which:
        parts.append(f"only the first {MAX_BODY_BYTES} bytes of /metrics were read {' and '.join(which)} the levels")
    if lines := after.bad_lines or before.bad_lines:
        parts.append(f"{len(lines)} lines of /metrics cannot be read, such as {shorten(lines[0], 80)!r}")
    return "; ".join(parts) or None


def _difference(after: ServerSeries, before: ServerSeries | None) -> dict[str, float | None] | None:
    earlier = before.values if before is not None else {}
    if any(map(math.isnan, (*after.values.values(), *earlier.values()))):
        return None
    if after.kind == "counter":
        increase = sum(after.values.values()) - sum(earlier.values())
        return {"increase": increase if increase >= 0 else None} if increase else None
    if after.kind in _DISTRIBUTIONS:
        count = after.values.get("count", 0.0) - earlier.get("count", 0.0)
        total = after.values.get("sum", 0.0) - earlier.get("sum", 0.0)
        if count < 0:
            return {"count": None, "sum": None, "mean": None}
        return {"count": count, "sum": total, "mean": total / count} if count >= 1 else None
    value = next(iter(after.values.values()), None)
    earlier_value = next(iter(earlier.values()), None)
    return {"before": earlier_value, "after": value} if value != earlier_value else None


def preemptions(found: Mapping[str, Any]) -> float:
    """How many requests the server put aside, by its own counters: its memory for sequences was full."""
    return sum(
        entry.get("increase") or 0.0 for name, entry in found["series"].items() if _PREEMPTED in name.partition("{")[0]
    )
