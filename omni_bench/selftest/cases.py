"""What the self-test runs: the clean server, every fault of the catalogues, and the detectors named in advance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from omni_bench.errors import ConfigError, alternatives
from omni_bench.targets.chaos_proxy.catalogue import WIRE_FAULTS
from reference_impl.faults.catalogue import FAULTS

CLEAN = "clean"
KINDS = (CLEAN, "model", "speed", "wire")

NEEDS_AB = "ab"
"""Detector of small slowdowns: a verdict over interleaved pairs of runs. A self-test of single runs has none."""


@dataclass(frozen=True)
class SelftestCase:
    """One fault, or the clean server.

    ``expected``: the detectors named before anything ran; one of them must alarm at
    ``min_concurrency`` or above. Empty for the clean server, at which none may. ``overrides``:
    ``KEY=VALUE`` over the self-test's own configuration. ``of_samples``: it is not run, but recordings of the clean
    server are damaged by it.
    """

    name: str
    kind: str
    what: str
    expected: tuple[str, ...]
    min_concurrency: int
    overrides: tuple[str, ...]
    source: str = ""
    of_samples: bool = False

    @property
    def testable(self) -> bool:
        """False if only ``omni-bench ab`` can see it."""
        return self.kind == CLEAN or any(detector != NEEDS_AB for detector in self.expected)


def clean_case(requests_per_level: int | None = None) -> SelftestCase:
    """The server as it should be; ``requests_per_level``: of its levels, None for as many as with the faults."""
    more = () if requests_per_level is None else (f"load.requests_per_level={requests_per_level}",)
    return SelftestCase(CLEAN, CLEAN, "the server as it should be", (), 1, more)


def all_faults() -> list[SelftestCase]:
    """Every fault: model, speed, wire, each in the order of its catalogue."""
    inside = [
        SelftestCase(
            fault.name,
            fault.kind,
            fault.what,
            fault.detectors,
            fault.min_concurrency,
            (f"reference.fault={fault.name}", *fault.overrides),
            fault.source,
        )
        for fault in FAULTS.values()
    ]
    outside = [
        SelftestCase(
            fault.name,
            "wire",
            fault.what,
            fault.detectors,
            fault.min_concurrency,
            (f"target.chaos={fault.name}", *fault.overrides),
            fault.source,
            fault.of_samples is not None,
        )
        for fault in WIRE_FAULTS.values()
    ]
    inside.sort(key=lambda case: KINDS.index(case.kind))
    return inside + outside


def chosen_faults(names: Sequence[str]) -> list[SelftestCase]:
    """The faults called ``names`` (all of them if empty). Raises ConfigError for an unknown name."""
    faults = all_faults()
    known = [fault.name for fault in faults]
    for name in names:
        if name not in known:
            raise ConfigError(f"--only {name!r}{alternatives(name, known)}")
    return [fault for fault in faults if not names or fault.name in names]
