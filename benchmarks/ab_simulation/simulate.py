"""Simulated A/B studies with a known truth: is the procedure as reliable as it says?

Each study runs pairs in ABBA order with a random start on one machine. The time of a request is

    base · effect(arm) · run effect · drift(time slot) · prompt · request noise

with everything but the base log-normal. Run effects are drawn anew for each run (a fresh server) and
shared by all its levels and requests; prompts are the same in both arms; the drift is an AR(1) process
over the time slots, so that it is nearly, but not wholly, the same within a pair. The metrics are
those of a run: median TTFP, median RTF, audio/s, the tail of TTFP and the share of requests that stall. Then the
procedure itself (:mod:`omni_bench.compare.stats.verdicts`)
looks at 3 pairs, at 5 and at 8, until it can tell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from omni_bench.compare.stats.looks import Look
from omni_bench.compare.stats.verdicts import (
    VERDICTS,
    StudyPlan,
    Verdict,
    decide,
    limits_of,
    overall_code,
    worse_sign,
)
from omni_bench.metrics.definitions import METRICS
from omni_bench.metrics.measured_level import TAIL_SHARE

FIGURES = ("ttfp_ms", "rtf", "audio_per_s", "ttfp_tail_ms", "stalled")
"""The primaries that are simulated."""

SIGNS = tuple(worse_sign(METRICS[name].better) for name in FIGURES)
LIMITS = limits_of(FIGURES)
HEAVY_DEGREES = 3
BATCH = 100  # studies at a time, to bound memory


@dataclass(frozen=True)
class World:
    """What a simulated machine and server are like; CVs as fractions.

    ``effect``: how much slower after is (0.08: every time 8 % longer). ``run_cv``: of the run effect.
    ``ttfp_correlation``: between the run effects of TTFP and of the rest. ``drift_cv`` and
    ``drift_memory``: spread of the machine's drift and its correlation from one run to the next.
    ``levels``, ``requests``: of a run. ``prompt_cv``, ``request_cv``: between prompts, and between
    repetitions of one request. ``late``: share of the requests of after that are late by chance, by ``late_by`` of the
    usual TTFP; ``stalled``: shares of requests that stall in before and after. ``heavy``: run effects by Student's t
    with three degrees of freedom instead of normal ones, of the same CV.
    """

    effect: float
    run_cv: float
    ttfp_correlation: float = 0.5
    drift_cv: float = 0.03
    drift_memory: float = 0.95
    levels: int = 3
    requests: int = 32
    prompt_cv: float = 0.20
    request_cv: float = 0.05
    late: float = 0.0
    late_by: float = 0.45
    stalled: tuple[float, float] = (0.0, 0.0)
    heavy: bool = False


@dataclass(frozen=True)
class Rates:
    """How ``studies`` simulated studies ended; counts. ``pairs``: (pairs, studies that ended at so many)."""

    world: World
    studies: int
    regression: int
    improvement: int
    no_regression: int
    inconclusive: int
    pairs: tuple[tuple[int, int], ...]

    @property
    def mean_pairs(self) -> float:
        """Pairs that a study took."""
        return sum(pairs * count for pairs, count in self.pairs) / self.studies


def simulate(world: World, studies: int, *, seed: int, plan: StudyPlan | None = None) -> Rates:
    """Run ``studies`` whole studies; the same ``seed`` gives the same studies."""
    plan = plan or StudyPlan()
    rng = np.random.default_rng(seed)
    counts, ended = np.zeros(len(VERDICTS), dtype=int), dict.fromkeys(plan.looks, 0)
    for start in range(0, studies, BATCH):
        left = simulated_changes(world, min(BATCH, studies - start), plan.looks[-1], rng)
        for pairs in plan.looks:
            codes = verdict_codes(left[:, :pairs], plan.look(pairs))
            stops = ~np.isin(codes, [code for code, one in enumerate(VERDICTS) if plan.goes_on(pairs, one)])
            counts += np.bincount(codes[stops], minlength=len(VERDICTS))
            ended[pairs] += int(stops.sum())
            left = left[~stops]
    by_verdict = {verdict: int(counts[code]) for code, verdict in enumerate(VERDICTS)}
    return Rates(
        world=world,
        studies=studies,
        regression=by_verdict[Verdict.REGRESSION],
        improvement=by_verdict[Verdict.IMPROVEMENT],
        no_regression=by_verdict[Verdict.NO_REGRESSION],
        inconclusive=by_verdict[Verdict.INCONCLUSIVE],
        pairs=tuple(ended.items()),
    )


def verdict_codes(changes: np.ndarray, look: Look) -> np.ndarray:
    """The overall code of each study at a look, from ``changes`` [studies, pairs, primaries]."""
    return overall_code(
        decide(changes.mean(axis=1), changes.std(axis=1, ddof=1), changes.shape[1], SIGNS, LIMITS, look)
    )


def simulated_changes(world: World, studies: int, pairs: int, rng: np.random.Generator) -> np.ndarray:
    """ln(after/before) of each pair, averaged over levels: [studies, pairs, primaries] in the order of FIGURES.

    Of the share that stalls: after − before.
    """
    runs = (studies, pairs, 2)  # the last axis: before, after
    shared, own = _run_effects(world, runs, rng), _run_effects(world, runs, rng)
    mixed = world.ttfp_correlation * shared + math.sqrt(1 - world.ttfp_correlation**2) * own
    machine = _drift(world, studies, pairs, rng) + np.array([0.0, math.log1p(world.effect)])
    speed = machine + log_sd(world.run_cv) * shared
    ttfp_speed = machine + log_sd(world.run_cv) * mixed
    ttfp_requests = _requests(world, studies, pairs, rng)
    if world.late:
        hit = rng.random(ttfp_requests[:, :, 1].shape, dtype=np.float32) < world.late
        late = np.log(np.exp(ttfp_requests[:, :, 1]) + np.float32(world.late_by))
        ttfp_requests[:, :, 1] = np.where(hit, late, ttfp_requests[:, :, 1])
    ttfp = np.median(ttfp_requests, axis=-1) + ttfp_speed[..., None]
    slowest = math.ceil(TAIL_SHARE * world.requests)
    tenth = np.partition(ttfp_requests, world.requests - slowest, axis=-1)[..., -slowest:]
    tail = np.log(np.exp(tenth).mean(axis=-1)) + ttfp_speed[..., None]
    rtf_requests = _requests(world, studies, pairs, rng)
    rtf = np.median(rtf_requests, axis=-1) + speed[..., None]
    audio_per_s = -np.log(np.exp(rtf_requests).mean(axis=-1)) - speed[..., None]
    stalls = rng.binomial(world.requests, np.array(world.stalled)[:, None], ttfp.shape) / world.requests
    figures = np.stack([ttfp, rtf, audio_per_s, tail, stalls], axis=-1)  # [studies, pairs, arms, levels, primaries]
    changes = figures[:, :, 1] - figures[:, :, 0]
    return changes.mean(axis=2)


def log_sd(cv: float) -> float:
    """The standard deviation of the logarithm of a log-normal variable with this coefficient of variation."""
    return math.sqrt(math.log1p(cv**2))


def _run_effects(world: World, size: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Of mean 0 and variance 1."""
    if world.heavy:
        return rng.standard_t(HEAVY_DEGREES, size) / math.sqrt(HEAVY_DEGREES / (HEAVY_DEGREES - 2))
    return rng.standard_normal(size)


def _requests(world: World, studies: int, pairs: int, rng: np.random.Generator) -> np.ndarray:
    """Logarithms of request times, [studies, pairs, arms, levels, requests]: a prompt is as long in every run."""
    size = (studies, pairs, 2, world.levels, world.requests)
    noise = rng.standard_normal(size, dtype=np.float32) * np.float32(log_sd(world.request_cv))
    prompts = rng.standard_normal((studies, 1, 1, world.levels, world.requests), dtype=np.float32)
    return noise + prompts * np.float32(log_sd(world.prompt_cv))


def _drift(world: World, studies: int, pairs: int, rng: np.random.Generator) -> np.ndarray:
    """The machine's drift at each run, [studies, pairs, arms]: AR(1) over time, ABBA with a random start."""
    slots = rng.standard_normal((studies, 2 * pairs))
    fresh = math.sqrt(1 - world.drift_memory**2)
    for slot in range(1, 2 * pairs):
        slots[:, slot] = world.drift_memory * slots[:, slot - 1] + fresh * slots[:, slot]
    in_time = (slots * log_sd(world.drift_cv)).reshape(studies, pairs, 2)
    after_first = (np.arange(pairs)[None, :] + rng.integers(0, 2, (studies, 1))) % 2 == 1
    return np.where(after_first[..., None], in_time[..., ::-1], in_time)
