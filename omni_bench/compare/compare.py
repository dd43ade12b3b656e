"""Makes one comparison out of the runs of two arms, and decides its outcome (``_outcome``). Pure: no files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from omni_bench.compare.accuracy import compare_accuracy, flags_rose, hard_failures, worst_pairs
from omni_bench.compare.cells import (
    Pair,
    compare_cells,
    compare_percentiles,
    is_text_alone,
    level_effects,
    pair_changes,
)
from omni_bench.compare.keys import Difference, check_comparable, common_concurrencies, differences_of_all
from omni_bench.compare.result import (
    WITHOUT_VERDICT,
    Accuracy,
    Advisory,
    Breakage,
    Cell,
    ComparedArm,
    Comparison,
    ComparisonOutcome,
    Mark,
)
from omni_bench.compare.stats.length_guard import LengthGuard, length_guard, length_guard_by_means
from omni_bench.compare.stats.looks import ONE_LOOK, Look
from omni_bench.compare.stats.pairs import averaged_over_levels, common_levels
from omni_bench.compare.stats.verdicts import FULL_PAIRS, PrimaryVerdict, Verdict, judge, overall, unknown_medians
from omni_bench.compare.views import OMNI_BENCH, RunView, faults_by_arm
from omni_bench.metrics.definitions import METRICS, primary_metrics
from omni_bench.metrics.measured_level import TAIL_MIN_REQUESTS
from omni_bench.records.invalid_reason import Blame, InvalidReason
from omni_bench.records.level import Level, level_value, listed_levels, short_title
from omni_bench.report.format import NA

GPU_REQUESTS, GPU_REQUESTS_PER_SLOT = 64, 16


def compare_runs(
    before: Sequence[RunView], after: Sequence[RunView], *, force: bool = False, look: Look = ONE_LOOK
) -> Comparison:
    """Compare run i of ``before`` with run i of ``after``, for all i.

    ``look``: which of a study that looks several times (:class:`.stats.verdicts.StudyPlan`). Pairs with an invalid run
    are left out of the performance figures;
    a valid before with an invalid after never ends as "no regression" or "improvement". Raises ComparabilityError as
    :func:`omni_bench.compare.keys.check_comparable`.
    """
    alpha = look.bound
    forced = check_comparable(before, after, force=force)
    pairs: list[Pair] = list(zip(before, after, strict=True))
    used = tuple(i for i, pair in enumerate(pairs) if not any(run.invalid for run in pair))
    shown = [pairs[i] for i in used] or pairs
    levels = common_concurrencies(before, after)
    advisory = _advisory(before, after, len(used), forced, look)
    gives_verdicts = WITHOUT_VERDICT.isdisjoint(advisory)
    guard = _guard(shown, levels)
    judged = primary_metrics(audio=False, text=True) if is_text_alone(shown) else guard.primaries
    effects = {name: level_effects(shown, name, levels) for name in judged}
    primaries = judge({name: averaged_over_levels(found) for name, found in effects.items()}, look)
    if not (gives_verdicts and used):
        primaries = tuple(_without_verdict(primary) for primary in primaries)
    accuracy = compare_accuracy(before, after, levels)
    failures = hard_failures(accuracy, len(after))
    worse = flags_rose(accuracy, look)
    broken = breakages(before, after)
    outcome = _outcome(pairs, used, gives_verdicts, primaries, failures, worse, broken)
    if outcome is ComparisonOutcome.AFTER_BROKEN:
        primaries = tuple(_without_verdict(primary) for primary in primaries)
    cells = compare_cells(shown, levels, guard, alpha=alpha, verdicts=gives_verdicts and bool(used))
    percentiles = compare_percentiles(shown, levels)
    changes = pair_changes(shown, [i + 1 for i in used or range(len(pairs))], effects)
    if not used:  # none over all levels, as some of them are invalid
        primaries = tuple(replace(_without_verdict(primary), effect=None, change=None) for primary in primaries)
        changes = ()
    if outcome is ComparisonOutcome.NO_CLAIM and not used:  # not one figure may be believed
        cells = tuple(
            Cell(cell.metric, cell.concurrency, 0, None, None, None, None, None, None, Mark.INVALID) for cell in cells
        )
        percentiles = ()
    return Comparison(
        outcome=outcome,
        before=_arm(before),
        after=_arm(after),
        pairs=len(pairs),
        used=used,
        alpha=alpha,
        look=look if look.pairs == len(used) else None,
        levels=levels,
        requests=tuple((level, _fewest_requests(pairs, level)) for level in levels),
        hardware=_of_both(before, after, "hardware"),
        prompts=_of_both(before, after, "prompts"),
        judge=_of_both(before, after, "judge"),
        settings=tuple(differences_of_all([run.settings for run in before], [run.settings for run in after])),
        versions=tuple(differences_of_all([run.versions for run in before], [run.versions for run in after])),
        forced=tuple(forced),
        advisory=advisory,
        invalid=_invalid(before, after),
        failures=tuple(failures),
        notes=(
            *_notes(before, after, levels, accuracy, guard),
            *_partial(effects, levels, gives_verdicts and _few_for_a_tail(pairs, levels)),
        ),
        guard=guard,
        primaries=primaries,
        cells=cells,
        percentiles=percentiles,
        accuracy=accuracy,
        accuracy_worse=worse,
        broken=broken,
        pair_changes=changes,
        worst=worst_pairs(before, after, levels),
        faults=faults_by_arm(before, after, "faults"),
        stated_faults=faults_by_arm(before, after, "stated_faults"),
    )


def breakages(before: Sequence[RunView], after: Sequence[RunView]) -> tuple[Breakage, ...]:
    """What the servers of after do wrong, if none of before does anything wrong; by the codes of the reasons."""
    if any(reason.blame == Blame.SERVER for run in before for reason in run.invalid):
        return ()
    found: dict[str, list[tuple[int, InvalidReason]]] = {}
    for number, (fine, run) in enumerate(zip(before, after, strict=True)):
        for reason in run.invalid if not fine.invalid else ():
            if reason.blame == Blame.SERVER:
                found.setdefault(str(reason.code), []).append((number, reason))
    titles = {short_title(level.concurrency): level.concurrency for run in after for level in run.levels}
    return tuple(
        Breakage(
            code=code,
            levels=tuple(sorted({titles[one.level] for _, one in reasons if one.level in titles}, key=level_value)),
            text=reasons[0][1].text,
            runs=len({number for number, _ in reasons}),
        )
        for code, reasons in found.items()
    )


def _advisory(
    before: Sequence[RunView], after: Sequence[RunView], used: int, forced: Sequence[Difference], look: Look
) -> dict[Advisory, str]:
    found = {}
    if len(before) == 1:
        found[Advisory.SINGLE_RUNS] = "single runs"
    if any(run.kind != OMNI_BENCH for run in (*before, *after)):
        found[Advisory.NO_REQUESTS] = "no per-request data"
    early = look.pairs == used and look.at[-1] >= FULL_PAIRS
    if len(before) > 1 and 0 < used < FULL_PAIRS and not early:
        found[Advisory.FEW_PAIRS] = f"{used} pair{'' if used == 1 else 's'}, {FULL_PAIRS} are needed"
    if forced:
        found[Advisory.OTHER_KEYS] = "comparability keys differ"
    return found


def _guard(pairs: Sequence[Pair], levels: Sequence[Level]) -> LengthGuard:
    arms = [[pair[side] for pair in pairs] for side in (0, 1)]
    if all(run.requests is not None for arm in arms for run in arm):
        lengths = [
            [
                {
                    request.key: request.audio_s
                    for request in run.requests or ()
                    if request.audio_s and request.key.concurrency in levels
                }
                for run in arm
            ]
            for arm in arms
        ]
        found = length_guard(*lengths)
        if found.tripped is not None:
            return found
    means = [
        [{level: view.figure("audio_s", "mean") for level in levels if (view := run.level(level))} for run in arm]
        for arm in arms
    ]
    return length_guard_by_means(*means)


def _without_verdict(primary: PrimaryVerdict) -> PrimaryVerdict:
    """The numbers alone: what single runs, or runs without a claim, have to say."""
    return PrimaryVerdict(primary.metric, primary.better, primary.effect, primary.change, None, None, None, None, None)


def _outcome(
    pairs: Sequence[Pair],
    used: Sequence[int],
    gives_verdicts: bool,
    primaries: Sequence[PrimaryVerdict],
    failures: Sequence[str],
    accuracy_worse: bool,
    broken: Sequence[Breakage],
) -> ComparisonOutcome:
    if broken:
        return ComparisonOutcome.AFTER_BROKEN
    if failures:
        return ComparisonOutcome.HARD_FAILURE
    if not used:
        return ComparisonOutcome.NO_CLAIM
    if not gives_verdicts:
        return ComparisonOutcome.ADVISORY
    verdict = overall(primaries)
    if verdict not in (None, Verdict.REGRESSION) and unknown_medians(primaries):
        verdict = Verdict.INCONCLUSIVE  # nothing is known of one of them
    if verdict is Verdict.REGRESSION or accuracy_worse:
        return ComparisonOutcome.REGRESSION
    broke = any(after.invalid and not before.invalid for before, after in pairs)
    return ComparisonOutcome.NO_CLAIM if verdict is None or broke else ComparisonOutcome[verdict.name]


def _arm(runs: Sequence[RunView]) -> ComparedArm:
    def agreed(name: str) -> str | None:
        values = {run.versions.get(name) for run in runs}
        return values.pop() if len(values) == 1 else None

    return ComparedArm(
        sources=tuple(run.source for run in runs),
        started_utc=tuple(run.started_utc for run in runs),
        target=runs[0].facts.target,
        version=agreed("target.version"),
        commit=agreed("target.commit"),
        command=runs[0].facts.command,
    )


def _of_both(before: Sequence[RunView], after: Sequence[RunView], fact: str) -> str | None:
    """A text about both arms; of the first runs with an arrow between them where they differ (--force)."""
    first, second = (getattr(runs[0].facts, fact) for runs in (before, after))
    return first if first == second else f"{first or NA} → {second or NA}"


def _fewest_requests(pairs: Sequence[Pair], level: Level) -> int:
    return min(view.requests for pair in pairs for run in pair if (view := run.level(level)) is not None)


def _few_for_a_tail(pairs: Sequence[Pair], levels: Sequence[Level]) -> bool:
    return all(_fewest_requests(pairs, level) < TAIL_MIN_REQUESTS for level in levels)


def _invalid(before: Sequence[RunView], after: Sequence[RunView]) -> tuple[str, ...]:
    return tuple(
        f"{name} {number}: {reason}" if len(arm) > 1 else f"{name}: {reason}"
        for name, arm in (("before", before), ("after", after))
        for number, run in enumerate(arm, start=1)
        for reason in run.invalid
    )


def _notes(
    before: Sequence[RunView],
    after: Sequence[RunView],
    levels: Sequence[Level],
    accuracy: Accuracy,
    guard: LengthGuard,
) -> tuple[str, ...]:
    runs = (*before, *after)
    notes = []
    if left_out := [
        level
        for level in sorted({one.concurrency for run in runs for one in run.levels}, key=level_value)
        if level not in levels
    ]:
        notes.append(f"Left out, as not every run has it: {listed_levels(left_out)}.")
    searched = [[run.facts.highest_rate or NA for run in arm] for arm in (before, after)]
    if any(run.facts.highest_rate is not None for run in runs):
        notes.append(
            f"Rate search: the highest rate that holds is {' → '.join(', '.join(arm) for arm in searched)}. "
            "The rows are of the rates that hold in every run."
        )
    if accuracy.rate is None:
        named = " before, ".join(rate or NA for rate in accuracy.rates)
        notes.append(
            f"Errors are counted by other units ({named} after), so that neither rates nor flags are compared."
        )
    elif accuracy.rate == "CER":
        notes.append("CER: errors are counted by character, as words are not written apart in this language.")
    if any(replace(run, source=other.source) == other for run in before for other in after):
        notes.append("A run stands on both sides: it is compared with itself.")
    if any(run.kind == OMNI_BENCH and run.requests is None for run in runs):
        notes.append(
            "Some run folders have no requests.jsonl: audio lengths are compared by the means of the levels, "
            "and accuracy has no test."
        )
    if any(run.facts.on_gpu for run in runs):
        few = [
            f"{short_title(level)}: {fewest} of {wanted}"
            for level in levels
            if (fewest := _fewest_requests(list(zip(before, after, strict=True)), level))
            < (wanted := max(GPU_REQUESTS, GPU_REQUESTS_PER_SLOT * level if isinstance(level, int) else 0))
        ]
        if few:
            notes.append(
                f"Fewer requests a level than a GPU deserves (max({GPU_REQUESTS}, {GPU_REQUESTS_PER_SLOT} · c)): "
                f"{', '.join(few)}."
            )
    excluded = [_excluded(arm, levels) for arm in (before, after)]
    if any(excluded):
        notes.append(
            f"The judge could not compare {excluded[0]} utterances before and {excluded[1]} after: texts without words."
        )
    if accuracy.cross_talk_runs == 1:
        notes.append("Cross-talk was heard in one run of after; if it repeats in another it is a hard failure.")
    if is_text_alone(list(zip(before, after, strict=True))):
        *first, last = (METRICS[name].short for name in primary_metrics(audio=False, text=True))
        notes.append(f"Text alone: {', '.join(first)} and {last} are judged. What was written is not.")
    elif guard.tripped is None:
        notes.append("Without audio lengths, a faster server cannot be told from one that says less.")
    return tuple(notes)


def _excluded(arm: Sequence[RunView], levels: Sequence[Level]) -> int:
    found = (view.accuracy for run in arm for level in levels if (view := run.level(level)) is not None)
    return sum(accuracy.get("excluded") or 0 for accuracy in found if accuracy is not None)


def _partial(
    effects: Mapping[str, Sequence[Mapping[Level, float | None]]], levels: Sequence[Level], few: bool
) -> list[str]:
    """Primaries that some levels say nothing about; ``few``: no level has enough requests for a tail."""
    notes = []
    for name, found in effects.items():
        judged = common_levels(found)
        if not judged and METRICS[name].tail and not METRICS[name].points and few:
            notes.append(no_tail_text(METRICS[name].short))
        if judged and len(judged) < len(levels):
            notes.append(
                f"{name} is judged over {listed_levels(judged)} alone: at the other levels not every run has it."
            )
    return notes


def no_tail_text(name: str) -> str:
    """Why a tail is not judged where no level has enough requests."""
    return (
        f"{name} is not judged: it needs at least {TAIL_MIN_REQUESTS} requests a level (load.requests_per_level), "
        "so that there is a slowest tenth."
    )
