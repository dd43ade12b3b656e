"""The comparison of stored runs: outcomes, the length guard, what invalid and single runs may claim."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from omni_bench.compare.compare import compare_runs
from omni_bench.compare.document import to_document
from omni_bench.compare.headline import headline, remarks
from omni_bench.compare.load import load_run
from omni_bench.compare.markdown import render_comparison
from omni_bench.compare.result import Advisory, ComparisonOutcome, Mark
from omni_bench.compare.stats.looks import ONE_LOOK
from omni_bench.compare.stats.verdicts import StudyPlan, Verdict
from omni_bench.errors import ComparabilityError
from omni_bench.metrics.definitions import METRICS
from omni_bench.records.invalid_reason import Code, invalid


def verdicts(comparison):
    return {primary.metric: primary.verdict for primary in comparison.primaries}


def test_a_slowdown_over_five_pairs_is_a_regression(make):
    comparison = compare_runs(make.arm("before", 5), make.arm("after", 5, slower=1.08, start=3))
    assert comparison.outcome is ComparisonOutcome.REGRESSION and comparison.gives_verdicts
    found = verdicts(comparison)
    assert found.pop("stalled") is Verdict.NO_REGRESSION, "no request stalls"
    assert found == dict.fromkeys(("ttfp_ms", "rtf", "audio_per_s", "ttfp_tail_ms"), Verdict.REGRESSION)
    ttfp = comparison.primaries[0]
    assert ttfp.interval[0] < 0.08 < ttfp.interval[1] and 0 < ttfp.detectable < 0.08
    assert comparison.advisory == {} and comparison.invalid == () and comparison.used == (0, 1, 2, 3, 4)


def test_every_seventh_request_late_is_a_regression_of_the_tail_alone(make):
    arms = make.arm("before", 5, requests=32), make.arm("after", 5, requests=32, start=3, late_ms=30)
    comparison = compare_runs(*arms)
    assert comparison.outcome is ComparisonOutcome.REGRESSION
    found = verdicts(comparison)
    assert found.pop("ttfp_tail_ms") is Verdict.REGRESSION
    assert set(found.values()) == {Verdict.NO_REGRESSION}
    tail = next(one for one in comparison.primaries if one.metric == "ttfp_tail_ms")
    assert 0 < tail.detectable < tail.interval[0] < tail.change < tail.interval[1]
    assert headline(comparison).startswith("slower in the tail alone: TTFP tail +")
    assert compare_runs(arms[0], make.arm("same", 5, requests=32, start=3)).outcome is ComparisonOutcome.NO_REGRESSION
    slow = compare_runs(arms[0], make.arm("slow", 5, requests=32, start=3, late_ms=30, slower=1.08))
    assert "TTFP +" in headline(slow) and "TTFP tail +" in headline(slow), "a tail that says more than its median"
    slow = compare_runs(arms[0], make.arm("slower", 5, requests=32, start=3, slower=1.3))
    assert verdicts(slow)["ttfp_tail_ms"] is Verdict.REGRESSION and "tail" not in headline(slow)


def test_requests_that_begin_to_stall_are_a_regression(make):
    comparison = compare_runs(
        make.arm("before", 5, requests=28), make.arm("after", 5, requests=28, start=3, pause_ms=500)
    )
    assert verdicts(comparison)["stalled"] is Verdict.REGRESSION
    assert verdicts(comparison)["ttfp_tail_ms"] is Verdict.NO_REGRESSION
    cell = next(one for one in comparison.cells if one.metric == "stalled")
    assert (cell.before, cell.after) == (0.0, 1 / 7) and cell.change == pytest.approx(1 / 7)
    assert "stalling requests +14.3 points" in headline(comparison)
    assert "0.00 % → 14.29 %" in render_comparison(comparison)


def with_figures(runs, name, value):
    """``runs``, in each of which a figure is ``value(number of the run, level, figure)``."""
    headline_of = METRICS[name].headline
    return [
        replace(
            run,
            levels=tuple(
                replace(
                    level,
                    metrics={
                        **level.metrics,
                        name: {
                            **level.metrics[name],
                            headline_of: value(number, level.concurrency, level.value(name)),
                        },
                    },
                )
                for level in run.levels
            ),
        )
        for number, run in enumerate(runs, start=1)
    ]


def test_requests_that_stall_in_one_pair_alone_make_it_the_outlier(make):
    """Their share is 0 in all others, of which it is no multiple."""
    after = with_figures(make.arm("after", 5, start=3), "stalled", lambda run, level, _: 0.4 * (run == 3))
    comparison = compare_runs(make.arm("before", 5), after)
    assert comparison.outcome is ComparisonOutcome.INCONCLUSIVE
    assert "pair 3 is an outlier: stalling requests +40.0 points" in headline(comparison)


def test_what_makes_a_comparison_inconclusive_is_named_where_it_has_no_figure(make):
    """Too few requests for the fit that takes the place of RTF where the audio is longer."""
    arms = make.arm("before", 5, requests=6), make.arm("after", 5, requests=6, longer=1.3, start=3)
    comparison = compare_runs(*arms)
    assert comparison.outcome is ComparisonOutcome.INCONCLUSIVE
    assert headline(comparison).startswith("cannot tell, as not every run has it: E2EL slope, E2EL intercept; no regr")
    nothing = [
        [replace(run, levels=tuple(replace(one, metrics={}) for one in run.levels)) for run in arm] for arm in arms
    ]
    comparison = compare_runs(*nothing)
    assert comparison.outcome is ComparisonOutcome.NO_CLAIM
    assert headline(comparison).startswith("no run has a figure that is judged: TTFP, E2EL slope")


@pytest.mark.parametrize(
    ("better", "outcome"), [(0.8, ComparisonOutcome.NO_REGRESSION), (0.6, ComparisonOutcome.IMPROVEMENT)]
)
def test_a_level_that_is_worse_is_said_where_the_mean_over_levels_hides_it(better, outcome, make):
    def value(_, level, figure):
        return figure * (1.2 if level == 4 else better)

    after = with_figures(make.arm("after", 5, start=3), "ttfp_ms", value)
    comparison = compare_runs(make.arm("before", 5), with_figures(after, "ttfp_tail_ms", value))
    assert comparison.outcome is outcome
    assert "At c = 4 alone it is worse: TTFP +19.8 %, TTFP tail +19.8 %." in remarks(comparison)
    same = compare_runs(make.arm("before", 5), make.arm("same", 5, start=3))
    assert not any("alone" in one for one in remarks(same))


@pytest.mark.parametrize("name", ["ttfp_ms", "audio_per_s", "ttfp_tail_ms"])
def test_a_figure_that_no_server_has_is_no_bug_of_ours(name, make):
    """A damaged run.json: it fits the schema."""
    arms = make.arm("b", 2, levels=(1,)), make.arm("a", 2, levels=(1,), start=3)
    for extreme in (1e300, 1e-300, 5e-324, 0.0, None):
        after = with_figures(arms[1], name, lambda run, level, own, value=extreme: value if run == 1 else own)
        before = with_figures(arms[0], name, lambda run, level, own: own if run == 1 else 1e300)
        for both in ((before, after), (after, before)):
            comparison = compare_runs(*both)
            assert json.dumps(to_document(comparison), allow_nan=False) and render_comparison(comparison)


def test_too_few_requests_for_a_tail_are_said_and_decide_nothing(make):
    comparison = compare_runs(make.arm("before", 5, requests=9), make.arm("after", 5, requests=9, start=3))
    assert verdicts(comparison)["ttfp_tail_ms"] is None
    assert comparison.outcome is ComparisonOutcome.NO_REGRESSION
    assert any("TTFP tail is not judged: it needs at least 10 requests a level" in one for one in comparison.notes)


def test_the_other_way_round_is_an_improvement(make):
    comparison = compare_runs(make.arm("before", 5, slower=1.08), make.arm("after", 5, start=3))
    assert comparison.outcome is ComparisonOutcome.IMPROVEMENT
    assert comparison.primaries[2].change > 0.03  # audio/s rises


def test_the_same_again_is_no_regression(make):
    comparison = compare_runs(make.arm("before", 5), make.arm("after", 5, start=3))
    assert comparison.outcome is ComparisonOutcome.NO_REGRESSION
    assert {cell.mark for cell in comparison.cells} == {Mark.SAME}


def test_a_noisy_machine_is_inconclusive(make):
    comparison = compare_runs(make.arm("before", 5, run_cv=0.06), make.arm("after", 5, run_cv=0.06, start=3))
    assert comparison.outcome is ComparisonOutcome.INCONCLUSIVE


def test_single_runs_never_regress(make):
    comparison = compare_runs([make.view(slower=1.0)], [make.view(slower=2.0, started=1)])
    assert comparison.outcome is ComparisonOutcome.ADVISORY and list(comparison.advisory) == [Advisory.SINGLE_RUNS]
    assert set(verdicts(comparison).values()) == {None}
    assert comparison.primaries[0].change == pytest.approx(1.0, abs=0.02)
    assert {cell.mark for cell in comparison.cells} == {Mark.ADVISORY}
    assert all(cell.interval is None and cell.p is None for cell in comparison.cells)


def test_three_pairs_are_advisory(make):
    comparison = compare_runs(make.arm("before", 3), make.arm("after", 3, slower=1.3, start=3))
    assert comparison.outcome is ComparisonOutcome.REGRESSION
    assert comparison.advisory == {Advisory.FEW_PAIRS: "3 pairs, 5 are needed"}


def test_an_early_look_is_no_advice_and_says_where_it_stands(make):
    arms = make.arm("before", 3), make.arm("after", 3, slower=1.3, start=3)
    comparison = compare_runs(*arms, look=StudyPlan().look(3))
    assert comparison.outcome is ComparisonOutcome.REGRESSION and not comparison.advisory
    assert remarks(comparison)[-1] == "Stopped at look 1 of 3 (3 pairs)."
    assert to_document(comparison)["look"] == {"number": 1, "of": 3, "pairs": 3, "planned": [3, 5, 8]}
    assert "those of this look. A study that stops early tends" in render_comparison(comparison)
    cut_off = compare_runs(*(arm[:2] for arm in arms), look=StudyPlan().look(2))
    assert cut_off.look is None and Advisory.FEW_PAIRS in cut_off.advisory


def test_a_look_at_half_the_error_is_wider(make):
    arms = make.arm("before", 5), make.arm("after", 5, start=3)
    looks = (StudyPlan(early=False).look(5), ONE_LOOK)
    wide, narrow = (compare_runs(*arms, look=look).primaries[0].interval for look in looks)
    assert wide[0] < narrow[0] and wide[1] > narrow[1]


def test_the_run_is_the_unit(make):
    """More requests in the same runs leave the interval alone: it comes from the runs."""
    few = compare_runs(make.arm("b", 5, requests=14), make.arm("a", 5, requests=14, start=3)).primaries[0]
    many = compare_runs(make.arm("b", 5, requests=56), make.arm("a", 5, requests=56, start=3)).primaries[0]
    width = [one.interval[1] - one.interval[0] for one in (few, many)]
    assert width[0] == pytest.approx(width[1], rel=0.1)


def test_longer_audio_trips_the_guard_and_changes_the_primaries(make):
    comparison = compare_runs(make.arm("before", 5), make.arm("after", 5, longer=1.2, start=3))
    assert comparison.guard.tripped and comparison.guard.change == pytest.approx(0.2, abs=0.02)
    assert tuple(verdicts(comparison)) == ("ttfp_ms", "e2el_slope", "e2el_intercept_ms", "ttfp_tail_ms")
    marks = {cell.metric: cell.mark for cell in comparison.cells}
    assert marks["rtf"] == marks["e2el_ms"] == marks["audio_per_s"] == Mark.LENGTH_GUARD
    assert marks["e2el_slope"] is not Mark.LENGTH_GUARD and marks["ttfp_ms"] is not Mark.LENGTH_GUARD
    # each second costs what it did: E2EL is longer, the marginal cost is not
    assert abs(comparison.primaries[1].change) < 0.02
    assert comparison.outcome is ComparisonOutcome.NO_REGRESSION


def test_a_real_slowdown_is_found_behind_longer_audio(make):
    comparison = compare_runs(make.arm("before", 5), make.arm("after", 5, longer=1.2, slower=1.15, start=3))
    assert comparison.guard.tripped and verdicts(comparison)["e2el_slope"] is Verdict.REGRESSION


def test_without_requests_lengths_are_compared_by_level(make):
    before, after = make.arm("before", 5), make.arm("after", 5, start=3)
    comparison = compare_runs([replace(run, requests=None) for run in before], after)
    assert comparison.guard.basis == "level means" and comparison.guard.tripped is False
    assert comparison.accuracy.flags is None and comparison.accuracy.wer is None
    assert comparison.accuracy.wer_before == 0.0
    assert any("requests.jsonl" in note for note in comparison.notes)
    assert comparison.outcome is ComparisonOutcome.NO_REGRESSION


def test_an_invalid_run_makes_no_claim(make):
    before, after = make.view(), make.view(failures=2, started=1)
    broken = compare_runs([before], [after])
    assert broken.outcome is ComparisonOutcome.AFTER_BROKEN
    assert [(one.code, one.levels, one.runs) for one in broken.broken] == [("requests_failed", (1, 4), 1)]
    comparison = compare_runs([after], [before])
    assert comparison.outcome is ComparisonOutcome.NO_CLAIM
    assert any("2 of 16 requests failed" in reason for reason in comparison.invalid)
    assert {cell.mark for cell in comparison.cells} == {Mark.INVALID}


def test_pairs_with_an_invalid_run_are_left_out(make):
    before, after = make.arm("before", 6), make.arm("after", 6, start=3)
    before[2] = make.view("broken", failures=1, started=77)
    comparison = compare_runs(before, after)
    assert comparison.used == (0, 1, 3, 4, 5) and comparison.outcome is ComparisonOutcome.NO_REGRESSION
    assert comparison.invalid and all(reason.startswith("before 3: ") for reason in comparison.invalid)
    assert {cell.pairs for cell in comparison.cells} == {5}


def test_a_change_that_breaks_requests_is_never_an_improvement(make):
    before, after = make.arm("before", 6, slower=1.2), make.arm("after", 6, start=3)
    after[0] = make.view("broken", failures=1, started=77)
    comparison = compare_runs(before, after)
    assert comparison.outcome is ComparisonOutcome.AFTER_BROKEN and comparison.broken[0].runs == 1
    assert {primary.verdict for primary in comparison.primaries} == {None}
    before[3] = make.view("bad", failures=1, started=88)
    both = compare_runs(before, after)
    assert both.outcome is ComparisonOutcome.NO_CLAIM and both.broken == (), "before is not fine"


def test_an_interrupted_run_makes_no_claim(make):
    view = make.view()
    comparison = compare_runs([view], [replace(make.view(started=1), why=(invalid(Code.INTERRUPTED),))])
    assert comparison.outcome is ComparisonOutcome.NO_CLAIM and comparison.invalid == (
        "after: the run was interrupted",
    )


def test_more_corrupted_utterances_are_a_regression_whatever_the_speed(make):
    before = make.arm("before", 5)
    after = make.arm("after", 5, slower=0.8, start=3, corrupted=(1, 5, 9, 13))
    comparison = compare_runs(before, after)
    assert comparison.accuracy.flags.worse == 8 and comparison.accuracy.flags.p == pytest.approx(2 / 2**8)
    assert comparison.accuracy_worse and comparison.outcome is ComparisonOutcome.REGRESSION
    assert comparison.accuracy.wer.low > 0 and comparison.accuracy.wer_after > 0.1


def test_cross_talk_that_repeats_is_a_hard_failure(make):
    before = make.arm("before", 5, cross_talk=0, parity=0)
    quiet = make.arm("after", 5, start=3, cross_talk=0, parity=0)
    once = [make.view("hit", cross_talk=1, parity=2, started=70), *quiet[1:]]
    comparison = compare_runs(before, once)
    assert comparison.outcome is ComparisonOutcome.NO_REGRESSION and any("one run" in note for note in comparison.notes)
    assert (comparison.accuracy.cross_talk_after, comparison.accuracy.parity_after) == (2, 4)  # of two levels
    twice = [*once[:1], make.view("hit again", cross_talk=1, parity=0, started=71), *quiet[2:]]
    comparison = compare_runs(before, twice)
    assert comparison.outcome is ComparisonOutcome.HARD_FAILURE
    assert comparison.failures == ("cross-talk repeats: 4 hits, in 2 of 5 runs of after",)


def test_what_was_not_checked_is_missing(make):
    accuracy = compare_runs([make.view(judge=False)], [make.view(judge=False, started=1)]).accuracy
    assert accuracy.wer_before is accuracy.wer_after is accuracy.cross_talk_before is accuracy.parity_after is None
    assert accuracy.cross_talk_runs is None
    accuracy = compare_runs([make.view()], [make.view(started=1, cross_talk=0)]).accuracy
    assert (accuracy.cross_talk_before, accuracy.cross_talk_after) == (None, 0)


def test_a_run_of_which_the_judge_compared_nothing_makes_no_claim(make):
    """It calls itself valid, as runs did before that was a reason."""
    path = make.folder("blind", levels=(1,), started=1)
    run = json.loads((path / "run.json").read_text())
    run["levels"][0]["accuracy"] |= {"words": 0, "utterances": 0, "excluded": 14, "wer": None, "cer": None}
    (path / "run.json").write_text(json.dumps(run))
    comparison = compare_runs([make.view(levels=(1,))], [load_run(path)])
    assert any("nothing was compared: none of 14 texts" in why for why in comparison.invalid) and not comparison.used
    assert any("could not compare 0 utterances before and 14 after" in note for note in comparison.notes)


def test_a_metric_that_one_run_lacks_is_not_compared(make):
    before, after = make.arm("before", 5), make.arm("after", 5, start=3)
    before[1] = _without(before[1], "rtf")
    comparison = compare_runs(before, after)
    assert verdicts(comparison)["rtf"] is None and comparison.primaries[1].change is None
    assert comparison.outcome is ComparisonOutcome.INCONCLUSIVE  # nothing is known of one primary
    cell = next(cell for cell in comparison.cells if cell.metric == "rtf")
    assert cell.pairs == 4


def test_a_level_that_lacks_a_metric_is_named(make):
    before, after = make.arm("before", 5), make.arm("after", 5, start=3)
    after[4] = _without(after[4], "ttfp_ms", levels=(4,))
    comparison = compare_runs(before, after)
    assert any("ttfp_ms is judged over c = 1 alone" in note for note in comparison.notes)


def _without(run, metric, levels=(1, 4)):
    return replace(
        run,
        levels=tuple(
            replace(level, metrics={name: value for name, value in level.metrics.items() if name != metric})
            if level.concurrency in levels
            else level
            for level in run.levels
        ),
    )


def test_arms_have_to_match(make):
    runs = make.arm("run", 3)
    with pytest.raises(ComparabilityError, match="before has 2 runs, after has 3"):
        compare_runs(runs[:2], make.arm("after", 3, start=3))
    with pytest.raises(ComparabilityError, match="before has 0 runs"):
        compare_runs([], [])
    with pytest.raises(ComparabilityError, match="is a copy of"):
        compare_runs([runs[0], replace(runs[0], source="copy")], make.arm("after", 2, start=3))
    assert "compared with itself" in compare_runs(runs[:1], runs[:1]).notes[0]
    assert "compared with itself" in compare_runs(runs[:1], [replace(runs[0], source="./run")]).notes[0]


def test_cells_are_geometric_means_with_their_change(make):
    before, after = make.arm("before", 5), make.arm("after", 5, slower=1.1, start=3)
    comparison = compare_runs(before, after)
    cell = next(cell for cell in comparison.cells if cell.metric == "ttfp_ms" and cell.concurrency == 4)
    assert cell.after / cell.before - 1 == pytest.approx(cell.change)
    assert cell.delta == pytest.approx(cell.after - cell.before)
    assert cell.mark is Mark.WORSE and cell.p <= cell.p_adjusted < 0.1


def test_few_requests_on_a_gpu_are_said(make):
    runs = [replace(run, facts=replace(run.facts, on_gpu=True)) for run in (make.view(), make.view(started=1))]
    notes = compare_runs(runs[:1], runs[1:]).notes
    assert any("c = 1: 14 of 64, c = 4: 14 of 64" in note for note in notes)


def test_runs_of_which_none_is_valid_show_no_figure(make):
    arms = make.arm("before", 2, failures=3), make.arm("after", 2, failures=3, start=2, slower=1.3)
    comparison = compare_runs(*arms, force=True)
    assert comparison.outcome is ComparisonOutcome.NO_CLAIM and not comparison.used
    text = render_comparison(comparison)
    assert "+30" not in text and "e2el_ms" not in text and "| TTFP p50 (ms) " in text
    assert all(cell.mark is Mark.INVALID and cell.before is None and cell.change is None for cell in comparison.cells)
    to_document(comparison)
