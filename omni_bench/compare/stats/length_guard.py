"""Length guard: is the audio of two arms equally long, so that RTF, E2EL and audio/s may be compared?

RTF divides by the audio length and a fixed cost weighs less in longer audio; E2EL grows with it;
audio/s is made of it, and a longer answer has more chances to stall. A change that merely speaks longer would look like
a change of speed.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from omni_bench.compare.stats.pairs import as_change, log_ratio
from omni_bench.metrics.definitions import in_order, primary_metrics
from omni_bench.metrics.metric import WithLength
from omni_bench.records.level import Level, short_title

LIMIT = 0.02
PER_REQUEST, LEVEL_MEANS = "requests", "level means"


class UtteranceKey(NamedTuple):
    """What makes a request of one run the twin of a request of another.

    ``occurrence`` counts requests of a level that agree in the rest (a prompt that is repeated without seeds).
    """

    concurrency: Level
    prompt_id: str
    seed: int | None
    occurrence: int = 0


@dataclass(frozen=True)
class LengthGuard:
    """The finding. ``tripped``: RTF, E2EL, audio/s and stalls are not to be judged; None if it could not be checked.

    ``change``: the mean change of a prompt's audio length (geometric); ``total_change``: that of all audio
    together; ``levels``: (concurrency, change). ``prompts``: twins compared, of which ``outside`` are more than
    2 % apart. ``basis``: what was compared. All are fractions; None where there is nothing to compare.
    """

    tripped: bool | None
    change: float | None
    total_change: float | None
    levels: tuple[tuple[Level, float], ...]
    prompts: int
    outside: int | None
    basis: str | None

    @property
    def primaries(self) -> tuple[str, ...]:
        """The metrics that get a verdict."""
        return primary_metrics(by_fit=bool(self.tripped))

    @property
    def reason(self) -> str:
        """The finding in words."""
        if self.tripped is None or self.change is None:
            return "audio lengths could not be compared: no audio length is known in both arms"
        compared = f"{self.prompts} prompts, paired" if self.basis == PER_REQUEST else "mean length of each level"
        found = f"audio length {_signed(self.change)} ({compared}; limit ±{100 * LIMIT:g} %)"
        if not self.tripped:
            return f"{found}: {_biased()} may be compared"
        beyond = [f"{short_title(level)}: {_signed(change)}" for level, change in self.levels if abs(change) > LIMIT]
        where = beyond if len(self.levels) > 1 else []
        if self.total_change is not None and abs(self.total_change) > LIMIT >= abs(self.change):
            where = [f"all audio together: {_signed(self.total_change)}", *where]
        return (
            f"{', '.join([found, *where])}: other audio lengths change {_biased()} without any change of speed, "
            "so the verdicts are those of the E2EL slope (marginal cost) and intercept (fixed cost) instead"
        )


def length_guard(
    before: Sequence[Mapping[UtteranceKey, float]], after: Sequence[Mapping[UtteranceKey, float]]
) -> LengthGuard:
    """Compare the audio seconds of twins; ``before[i]`` and ``after[i]`` are of pair i.

    A prompt's change is the mean logarithm over the pairs that have both twins. It trips when the
    mean over all prompts, over those of any level, or all audio together is outside ±2 %. Raises ValueError
    if the arms are not of the same number of runs.
    """
    logs: dict[UtteranceKey, list[float]] = {}
    totals = [0.0, 0.0]
    for first, second in zip(before, after, strict=True):
        for key in first.keys() & second.keys():
            change = log_ratio(first[key], second[key])
            if change is not None:
                logs.setdefault(key, []).append(change)
                totals[0] += first[key]
                totals[1] += second[key]
    means = {key: statistics.fmean(values) for key, values in logs.items()}
    by_level: dict[Level, list[float]] = {}
    for key in sorted(means, key=lambda key: key.concurrency):
        by_level.setdefault(key.concurrency, []).append(means[key])
    levels = tuple((level, as_change(statistics.fmean(values))) for level, values in by_level.items())
    if not means:
        return LengthGuard(None, None, None, (), 0, None, None)
    outside = sum(abs(as_change(value)) > LIMIT for value in means.values())
    total_change = totals[1] / totals[0] - 1
    return _guard(as_change(statistics.fmean(means.values())), total_change, levels, len(means), outside, PER_REQUEST)


def length_guard_by_means(
    before: Sequence[Mapping[Level, float | None]], after: Sequence[Mapping[Level, float | None]]
) -> LengthGuard:
    """The same without data of single requests: by the mean audio length of each level (concurrency -> seconds)."""
    by_level: dict[Level, list[float]] = {}
    for first, second in zip(before, after, strict=True):
        for level in sorted(first.keys() & second.keys()):
            change = log_ratio(first[level], second[level])
            if change is not None:
                by_level.setdefault(level, []).append(change)
    if not by_level:
        return LengthGuard(None, None, None, (), 0, None, None)
    means = {level: statistics.fmean(values) for level, values in by_level.items()}
    levels = tuple((level, as_change(mean)) for level, mean in means.items())
    return _guard(as_change(statistics.fmean(means.values())), None, levels, 0, None, LEVEL_MEANS)


def _guard(
    change: float,
    total_change: float | None,
    levels: tuple[tuple[Level, float], ...],
    prompts: int,
    outside: int | None,
    basis: str,
) -> LengthGuard:
    figures = [change, *([total_change] if total_change is not None else []), *(value for _, value in levels)]
    return LengthGuard(
        any(abs(value) > LIMIT for value in figures), change, total_change, levels, prompts, outside, basis
    )


def _biased() -> str:
    """ "RTF, E2EL, audio/s and stalling requests"."""
    metrics = in_order(audio=True, text=False)
    *first, last = [metric.short for metric in metrics if metric.with_length is WithLength.BIASED]
    return f"{', '.join(first)} and {last}"


def _signed(fraction: float) -> str:
    """In percent; so exact that what is beyond the limit does not read as the limit itself."""
    decimals = next((n for n in range(1, 6) if round(abs(fraction), n + 2) != LIMIT), 1)
    text = f"{100 * fraction:+.{decimals}f}"
    return f"{text if float(text) else '+0.0'} %"
