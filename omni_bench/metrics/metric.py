"""What an entry of the list of metrics says: name, unit, formula, and where it is shown, compared and gated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Scope(StrEnum):
    """What has one value of a metric."""

    REQUEST = "request"  # a level has their distribution: mean, p50, p90, ...
    LEVEL = "level"
    CHECK = "check"  # of a level too, found by what is done with its answers: a judge, cross-talk, parity


class Part(StrEnum):
    """Which part of an answer a metric is about: runs without that part have no column, plot or verdict of it."""

    AUDIO = "audio"
    TEXT = "text"
    ANY = "any"


class Shown(StrEnum):
    """In which runs a metric is a column of the level table. Every figure of every run is among "All figures"."""

    NEVER = "never"
    ALWAYS = "always"
    OPEN_LOOP = "open loop"
    TEXT_ALONE = "text alone"  # beside the columns of audio the table would get too wide
    WORDS = "words"  # where words are written apart
    IF_PRESENT = "if present"  # in any level: a service level was asked for, a check was made


class Compared(StrEnum):
    """What `omni-bench compare` does with a metric: all get percentiles in the details."""

    PRIMARY = "primary"  # a verdict, and a row a level
    SECONDARY = "secondary"  # a row a level


class WithLength(StrEnum):
    """What becomes of a metric where the audio of two runs is not equally long (the length guard)."""

    BIASED = "biased"  # it changes with the length without any change of speed: no verdict
    INSTEAD = "instead"  # it is judged in place of those


@dataclass(frozen=True)
class Plotted:
    """A plot over the levels, of its own or (``joins``) as a further line in that of another metric.

    ``title``: None for the metric's label; ``y_label``: None for short label and unit; ``line``: what the line is
    called, None for the usual.
    ``reference``: a horizontal line that means something: (value, label).
    """

    joins: str | None = None
    title: str | None = None
    y_label: str | None = None
    line: str | None = None
    reference: tuple[float, str] | None = None


@dataclass(frozen=True)
class Metric:
    """One metric. Everything that shows, compares or stores metrics goes by these entries.

    ``name``: its key in run.json and requests.jsonl. ``short``, ``label``: headings ("TTFP", "Time to first packet").
    ``unit``: "" for a ratio. ``better``: ``lower``, ``higher``, or None where neither is (audio length is a fact, not
    a merit). ``definition``: what it is, for the documentation; ``legend``: the same below the table, in a few words.

    ``compute``: of a request, its value (with ``many``, a tuple of values) from an
    :class:`omni_bench.metrics.formulas.AnsweredRequest`; of a level, its value from a
    :class:`omni_bench.metrics.measured_level.MeasuredLevel`; None of a check. ``needs_samples``: it is computed while
    the audio is there, and read back from requests.jsonl later. ``of_all``: of all requests, not of the valid ones.
    ``path``: where a level of run.json has the value, None for ``metrics``.

    ``digits``: decimals in tables; milliseconds have their own. ``percent``: a fraction that is shown as a percentage.
    ``order``: place in tables, plots and comparisons, lowest first (the order of run.json is that of the list).
    ``figures``: of a distribution in the table; a third one stands in brackets. ``narrow``: also shown in a terminal
    of less than 140 columns. ``gated``: judged every night. ``relative_to``: its changes are shares of this metric:
    it may be near zero or negative, where its own logarithm means nothing.
    ``tail``: of the slowest requests, or of those that stall: judged beside the medians where runs have
    enough requests. ``points``: a share, whose changes are differences in percentage points.
    ``server``: histograms of a server's /metrics that say it of the same request, in seconds where the unit is ms.
    """

    name: str
    short: str
    label: str
    unit: str
    better: str | None
    definition: str
    compute: Callable[[Any], Any] | None = None
    scope: Scope = Scope.REQUEST
    part: Part = Part.AUDIO
    many: bool = False
    needs_samples: bool = False
    of_all: bool = False
    path: tuple[str, ...] | None = None
    digits: int = 2
    percent: bool = False
    order: int = 1000
    shown: Shown = Shown.NEVER
    figures: tuple[str, ...] = ("p50", "p90")
    narrow: bool = True
    legend: str | None = None
    plot: Plotted | None = None
    compared: Compared | None = None
    gated: bool = False
    with_length: WithLength | None = None
    relative_to: str | None = None
    tail: bool = False
    points: bool = False
    server: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        """The figure under ``metrics`` that is compared and gated: the median over requests, or the level's own."""
        return "p50" if self.scope is Scope.REQUEST else "mean"

    @property
    def as_share(self) -> bool:
        """Whether its changes are shares of something else, so that its own logarithm means nothing."""
        return self.points or self.relative_to is not None

    def value_in(self, level: Mapping[str, Any], figure: str | None = None) -> Any:
        """The value in a level of run.json, None if it has none; ``figure``: None for the headline."""
        found: Any = level
        for key in self.path or ("metrics", self.name, figure or self.headline):
            found = (found or {}).get(key)
        return found
