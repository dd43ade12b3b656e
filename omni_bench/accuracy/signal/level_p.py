"""How sure a claim about all answers of a level has to be, and the binomial tail that most of them rest on."""

from __future__ import annotations

LEVEL_P = 1e-6


def at_least_p(count: int, of: int, share: float) -> float:
    """Probability of ``count`` or more out of ``of`` if each has the probability ``share`` (binomial)."""
    from scipy import special  # slow to import

    return float(special.betainc(count, of - count + 1, share)) if count else 1.0
