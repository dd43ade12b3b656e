"""The outcome of the comparison: one row a check, and the document made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tabulate import tabulate

TOLERANCE = 1e-4  # largest relative error allowed, float32 on a CPU


@dataclass(frozen=True)
class Result:
    """One compared quantity.

    ``error``: max |ours - official| / max |official| over everything compared; for ids the
    share that differs, of which none may (``limit`` 0). ``steps``: how many positions, frames
    or cases were compared.
    """

    module: str
    checkpoint: str
    error: float
    steps: str
    limit: float = TOLERANCE

    @property
    def passed(self) -> bool:
        """Whether the error is a number within the limit."""
        return self.error <= self.limit


def render(results: Sequence[Result]) -> str:
    """A Markdown table."""
    rows = [
        (
            result.module,
            result.checkpoint,
            "identical" if result.limit == 0 and result.passed else f"{result.error:.1e}",
            result.steps,
            "yes" if result.passed else f"**no** (limit {result.limit:g})",
        )
        for result in results
    ]
    headers = ("module", "checkpoint", "max relative error", "steps", "within the limit")
    return tabulate(rows, headers=headers, tablefmt="github", disable_numparse=True)


def document(results: Sequence[Result], versions: Mapping[str, str]) -> str:
    """The report with the table, what it means, and how to make it again."""
    failed = [result.module for result in results if not result.passed]
    verdict = f"{len(failed)} of {len(results)} checks failed: {', '.join(failed)}." if failed else "All checks passed."
    packages = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"""# Parity with the official package

{verdict} Made by:

    make parity

which installs the extra `parity` and runs `python -m reference_impl.official_parity --out reports/parity.md`
({packages}; float32 on a CPU).

The official classes were built at small random configurations, one for each kind of
checkpoint, saved in the released layout and loaded from there by `reference_impl/loading/checkpoint.py`;
both sides then got the same inputs. Error: largest difference over largest official value, at
most {TOLERANCE:g}; ids and codes must be identical.

{render(results)}
"""
