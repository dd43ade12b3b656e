"""The verdict on a night, and on one after the other."""

from __future__ import annotations

from dataclasses import replace

import night_factory as made
import pytest
from reasons import because

from omni_bench.errors import ComparabilityError, ConfigError
from omni_bench.nightly.gate.markdown import HEADERS, series_rows
from omni_bench.nightly.gate.night import gate_night
from omni_bench.nightly.gate.result import GateOutcome, Status
from omni_bench.nightly.history.database import History
from omni_bench.nightly.history.records import ADVISORY, Role
from omni_bench.records.invalid_reason import Code


@pytest.fixture
def past():
    """A history of twelve good nights."""
    with made.history_of(made.nights(12)) as history:
        yield history


def statuses(result):
    return {one.metric: one.status for one in result.series}


def reasons(result):
    return "; ".join(one.reason for one in result.series)


def test_a_night_like_those_before_passes(past):
    result = gate_night(past, made.night(13))
    assert result.outcome is GateOutcome.PASS and result.exit_code == 0 and result.nights == 12
    assert set(statuses(result).values()) == {Status.PASS}
    rtf = next(one for one in result.series if one.metric == "rtf")
    assert rtf.expected.nights == 12 and rtf.expected.low < rtf.value < rtf.expected.high


def test_too_little_history_is_inconclusive_not_pass():
    with made.history_of(made.nights(9)) as history:
        result = gate_night(history, made.night(10))
        assert result.exit_code == 2 and "9 of 10 valid nights" in reasons(result)
        assert gate_night(history, made.night(11)).exit_code == 0
    with History(None) as empty:
        assert gate_night(empty, made.night(1)).exit_code == 2


def test_invalid_nights_are_no_history():
    broken = [
        made.night(number, hour=3, faulty=1, level_reasons=(because(Code.INVALID_AUDIO),)) for number in range(1, 13)
    ]
    with made.history_of([*made.nights(9), *broken]) as history:
        result = gate_night(history, made.night(13))
        assert result.exit_code == 2 and result.nights == 9


def test_broken_audio_is_a_hard_failure_however_fast(past):
    result = gate_night(past, made.night(13, slower=0.5, faulty=3, level_reasons=(because(Code.INVALID_AUDIO),)))
    assert result.outcome is GateOutcome.HARD_FAILURE and result.exit_code == 3 and result.series == ()
    after = gate_night(past, made.night(14))
    assert after.exit_code == 0 and after.nights == 12, "it entered no history"


def test_an_interrupted_night_is_no_measurement(past):
    result = gate_night(past, made.night(13, reasons=(because(Code.INTERRUPTED),)))
    assert result.outcome is GateOutcome.INVALID and result.exit_code == 3


def test_an_acute_night_is_not_judged_before_a_second_run(past):
    result = gate_night(past, made.night(13, slower=1.15))
    assert result.outcome is GateOutcome.UNCONFIRMED and set(statuses(result).values()) == {Status.UNCONFIRMED}
    assert result.exit_code == 2
    assert past.alarms(result.run.series) == []


def test_a_reproduced_acute_night_is_a_regression(past):
    rerun = made.night(13, role=Role.RERUN, hour=1, slower=1.14)
    result = gate_night(past, made.night(13, slower=1.15), rerun=rerun)
    assert result.outcome is GateOutcome.REGRESSION and result.exit_code == 1 and "reproduced" in reasons(result)
    assert {alarm.kind for alarm in past.alarms(result.run.series)} == {"acute"}


@pytest.mark.parametrize("until_accepted", [False, True])
@pytest.mark.parametrize("second", [1.14, 1.0], ids=["reproduced", "spike"])
def test_judging_again_counts_the_second_run_again(past, second, until_accepted):
    tonight, rerun = made.night(13, slower=1.15), made.night(13, role=Role.RERUN, hour=1, slower=second)
    first = gate_night(past, tonight, rerun=rerun)
    alarms, nights = past.alarms(tonight.series), past.nights(tonight.series)
    assert first.exit_code == (1 if second > 1 else 0) and bool(alarms) == (second > 1)

    def never():
        raise AssertionError("there is a second run already")

    for again in (None, never):
        result = gate_night(past, tonight, run_again=again, until_accepted=until_accepted)
        assert (result.outcome, result.series) == (first.outcome, first.series) and result.rerun == rerun
        assert past.alarms(tonight.series) == alarms and past.nights(tonight.series) == nights


def test_an_accepted_alarm_is_kept_when_its_night_is_judged_again(past):
    tonight = made.night(13, slower=1.15)
    gate_night(past, tonight, rerun=made.night(13, role=Role.RERUN, hour=1, slower=1.15))
    alarms = past.alarms(tonight.series)
    past.set_baseline([tonight.run_id], "intended")
    assert gate_night(past, tonight).outcome is GateOutcome.INCONCLUSIVE
    assert past.alarms(tonight.series) == alarms != []


def test_a_second_run_that_is_no_measurement_is_made_again(past):
    tonight = made.night(13, slower=1.15)
    broken = made.night(13, role=Role.RERUN, hour=1, reasons=(because(Code.INTERRUPTED),))
    assert gate_night(past, tonight, rerun=broken).exit_code == 3
    assert gate_night(past, tonight).exit_code == 3
    good = made.night(13, role=Role.RERUN, hour=2, slower=1.15)
    assert gate_night(past, tonight, run_again=lambda: good).exit_code == 1


def test_the_figures_of_the_second_run_are_said(past):
    result = gate_night(past, made.night(13, slower=1.5), rerun=made.night(13, role=Role.RERUN, hour=1, slower=1.2))
    rtf = next(one for one in result.series if one.metric == "rtf")
    assert rtf.second_change == pytest.approx(0.2, abs=0.02) and rtf.change == pytest.approx(0.5, abs=0.03)
    assert f"reproduced by the second run (+{100 * rtf.second_change:.1f} %)" in rtf.reason


def test_a_spike_is_replaced_by_its_second_run(past):
    rerun = made.night(13, role=Role.RERUN, hour=1)
    result = gate_night(past, made.night(13, slower=1.3), rerun=rerun)
    assert result.exit_code == 0 and result.replaced
    assert set(statuses(result).values()) == {Status.NOT_REPRODUCED}
    assert past.nights(result.run.series)[-1].levels == rerun.levels
    assert past.alarms(result.run.series) == []


def test_the_second_run_is_made_only_if_it_is_needed(past):
    calls = []

    def run_again():
        calls.append(1)
        return made.night(14, role=Role.RERUN, hour=1)

    assert gate_night(past, made.night(13), run_again=run_again).exit_code == 0 and calls == []
    assert gate_night(past, made.night(14, slower=1.3), run_again=run_again).exit_code == 0 and calls == [1]


def test_a_broken_second_run_is_a_hard_failure(past):
    rerun = made.night(13, role=Role.RERUN, hour=1, faulty=1, level_reasons=(because(Code.INVALID_AUDIO),))
    result = gate_night(past, made.night(13, slower=1.3), rerun=rerun)
    assert result.outcome is GateOutcome.HARD_FAILURE
    assert any(case.name == "second run: c = 1" and not case.ok for case in result.integrity)


def with_tail(number, *, late_ms=0.0, stalled=0.0, role=Role.NIGHT):
    tail_ms = 75.0 * (1 + made.WOBBLE[number % 13] / 100) + late_ms
    return made.night(number, ttfp_tail_ms=tail_ms, stalled=stalled, role=role, hour=role is Role.RERUN)


def test_a_night_that_is_late_for_every_seventh_request_fails_by_its_tail_alone():
    with made.history_of([with_tail(number) for number in range(1, 13)]) as history:
        again = with_tail(13, late_ms=30, role=Role.RERUN)
        result = gate_night(history, with_tail(13, late_ms=30), run_again=lambda: again)
    assert result.exit_code == 1
    assert [name for name, status in statuses(result).items() if status is Status.REGRESSION] == ["ttfp_tail_ms"]
    with made.history_of([with_tail(number) for number in range(1, 13)]) as history:
        again = with_tail(13, stalled=1 / 7, role=Role.RERUN)
        result = gate_night(history, with_tail(13, stalled=1 / 7), run_again=lambda: again)
    assert result.exit_code == 1 and "acute: +14.3 points" in reasons(result)
    with made.history_of([with_tail(number) for number in range(1, 13)]) as history:
        history.set_baseline([with_tail(number).run_id for number in range(1, 13)])
        rows = series_rows(gate_night(history, with_tail(13, stalled=1 / 7)))
    assert [row[HEADERS.index("vs baseline")] for row in rows if row[0] == "stalling requests"] == ["+14.3 points"]


def test_nights_of_an_older_version_have_no_tail_and_are_judged_without():
    with made.history_of(made.nights(12)) as history:
        result = gate_night(history, with_tail(13))
    assert result.exit_code == 0 and "ttfp_tail_ms" not in statuses(result)
    assert "TTFP tail: not judged yet at c = 1: fewer than 10 nights since the last change have it" in result.notes
    few = made.night(13)
    with made.history_of(made.nights(12)) as history:
        result = gate_night(history, replace(few, levels=(replace(few.levels[0], requests=9),)))
    assert result.exit_code == 0 and "at least 10 requests" in " ".join(result.notes)


def test_a_loss_below_five_percent_is_not_acute_but_drifts():
    with made.history_of(made.nights(20)) as history:
        results = [gate_night(history, made.night(number, slower=1.04)) for number in range(21, 27)]
    outcomes = [result.outcome for result in results]
    assert outcomes.count(GateOutcome.REGRESSION) == 1, "once"
    first = outcomes.index(GateOutcome.REGRESSION)
    assert first <= 4 and "drift: +4" in reasons(results[first])
    drift = next(one for one in results[first].series if one.metric == "rtf")
    assert drift.commits == (made.commit_of(20), made.commit_of(21))


def test_an_improvement_is_no_alarm(past):
    for number in range(13, 26):
        assert gate_night(past, made.night(number, slower=0.8)).exit_code in (0, 2)


def test_one_change_is_alarmed_once_and_stays_known(past):
    rerun = made.night(13, role=Role.RERUN, hour=1, slower=1.1)
    assert gate_night(past, made.night(13, slower=1.1), rerun=rerun).exit_code == 1
    later = [gate_night(past, made.night(number, slower=1.1)) for number in range(14, 30)]
    assert all(result.exit_code in (0, 2) for result in later)
    assert Status.KNOWN in statuses(later[0]).values()
    assert set(statuses(later[-1]).values()) == {Status.KNOWN} and "alarmed before" in reasons(later[-1])


def test_a_night_with_a_figure_that_no_server_has_is_judged_by():
    """A damaged run.json: it fits the schema."""
    strange = [made.night(number, ttfp_ms=value) for number, value in ((1, 1e300), (2, 1e-300))]
    with made.history_of([*strange, *made.nights(11, start=3)]) as history:
        result = gate_night(history, made.night(14))
    ttfp = next(one for one in result.series if one.metric == "ttfp_ms")
    assert ttfp.expected.nights == 13 and ttfp.expected.high > 1e300


def test_a_second_loss_is_alarmed_again(past):
    for number, slower in ((13, 1.1), (30, 1.25)):
        for before in range(number - 13 if number > 13 else 0):
            gate_night(past, made.night(14 + before, slower=1.1))
        rerun = made.night(number, role=Role.RERUN, hour=1, slower=slower)
        assert gate_night(past, made.night(number, slower=slower), rerun=rerun).exit_code == 1


def test_what_was_alarmed_is_not_expected_of_later_nights_and_what_was_mended_is(past):
    rerun = made.night(13, role=Role.RERUN, hour=1, slower=1.3)
    gate_night(past, made.night(13, slower=1.3), rerun=rerun)
    for number, slower, status, nights in ((14, 1.3, Status.KNOWN, 12), (15, 1, None, 12), (16, 1, None, 13)):
        result = gate_night(past, made.night(number, slower=slower))
        assert next(one.expected.nights for one in result.series if one.metric == "rtf") == nights
        assert status is None or set(statuses(result).values()) == {status}
    assert set(statuses(result).values()) == {Status.PASS} and not result.open_changes, "mended, twice"
    again = made.night(17, role=Role.RERUN, hour=1, slower=1.45)
    assert gate_night(past, made.night(17, slower=1.45), rerun=again).outcome is GateOutcome.REGRESSION


def test_a_change_that_was_mended_and_comes_back_is_alarmed_again(past):
    """It was taken for the first one, and never alarmed."""
    for number in range(13, 40):
        slow = {"slower": 1.1} if number < 19 or number >= 25 else {}
        tonight, again = made.night(number, **slow), made.night(number, role=Role.RERUN, hour=1, **slow)
        result = gate_night(past, tonight, run_again=lambda again=again: again)
        assert (result.outcome is GateOutcome.REGRESSION) == (number in (13, 25)), number
    assert result.open_changes


def test_the_noise_of_a_night_that_takes_twice_as_long_is_no_second_loss(past):
    gate_night(past, made.night(13, slower=2.1), rerun=made.night(13, role=Role.RERUN, hour=1, slower=2.1))
    assert gate_night(past, made.night(14, slower=2.17)).outcome is GateOutcome.PASS, "3 % more, and 7 % of before"
    assert gate_night(past, made.night(15, slower=2.4)).outcome is GateOutcome.UNCONFIRMED


def test_a_baseline_accepts_a_change(past):
    rerun = made.night(13, role=Role.RERUN, hour=1, slower=1.1)
    gate_night(past, made.night(13, slower=1.1), rerun=rerun)
    runs = [made.night(number, slower=1.1) for number in range(14, 26)]
    for run in runs:
        gate_night(past, run)
    past.set_baseline([run.run_id for run in runs], "accepted")
    result = gate_night(past, made.night(26, slower=1.1))
    assert result.exit_code == 0 and set(statuses(result).values()) == {Status.PASS} and result.nights == 12
    assert next(one for one in result.series if one.metric == "rtf").against_baseline == pytest.approx(0, abs=0.02)


def test_judging_a_night_again_gives_the_same_verdict(past):
    night, rerun = made.night(13, slower=1.1), made.night(13, role=Role.RERUN, hour=1, slower=1.1)
    first = gate_night(past, night, rerun=rerun)
    gate_night(past, made.night(14, slower=1.1))
    assert gate_night(past, night, rerun=rerun).outcome is first.outcome is GateOutcome.REGRESSION
    assert len(past.alarms(night.series)) == len(first.alarms)


def test_longer_audio_is_judged_by_the_fit(past):
    result = gate_night(past, made.night(13, longer=1.1, rtf=0.2, audio_per_s=60.0))
    assert list(statuses(result)) == ["ttfp_ms", "e2el_slope", "e2el_intercept_ms"]
    assert "length guard" in reasons(result) and result.exit_code == 0
    slow = made.night(14, longer=1.1, e2el_slope=0.4)
    rerun = made.night(14, role=Role.RERUN, hour=1, longer=1.1, e2el_slope=0.4)
    assert [one.metric for one in gate_night(past, slow, rerun=rerun).with_status(Status.REGRESSION)] == ["e2el_slope"]


def test_longer_audio_may_stall_more_often():
    with made.history_of([with_tail(number) for number in range(1, 13)]) as history:
        result = gate_night(history, made.night(13, longer=1.1, ttfp_tail_ms=75.0, stalled=1 / 7))
    assert "stalled" not in statuses(result) and result.exit_code == 0
    assert "not judged at c = 1: the audio is not as long as in the nights before" in " ".join(result.notes)


def test_a_level_that_was_dropped_is_inconclusive():
    keys = {"load.concurrency": [1, 4]}
    with made.history_of(made.nights(12, concurrencies=(1, 4), keys=keys)) as history:
        result = gate_night(history, made.night(13, concurrencies=(1,), keys=keys))
    assert result.exit_code == 2 and "was not measured tonight" in reasons(result)


def test_a_missing_value_is_inconclusive_and_not_zero(past):
    result = gate_night(past, made.night(13, rtf=None))
    rtf = next(one for one in result.series if one.metric == "rtf")
    assert rtf.status is Status.INCONCLUSIVE and rtf.value is None and result.exit_code == 2


def pinned_history(nights, machine):
    history = History(None)
    for number in range(1, nights + 1):
        pinned = made.night(number, role=Role.PINNED, hour=1, slower=machine(number), commit="0" * 40)
        gate_night(history, made.night(number, slower=machine(number)), pinned=pinned)
    return history


def test_a_pinned_run_cancels_the_machine():
    def machine(number):
        return 1.3 if number > 11 else 1.0

    with pinned_history(11, machine) as history:
        pinned = made.night(12, role=Role.PINNED, hour=1, slower=1.3, commit="0" * 40)
        result = gate_night(history, made.night(12, slower=1.3), pinned=pinned)
        assert result.exit_code == 0 and result.pinned == pinned
        assert next(one for one in result.series if one.metric == "rtf").value == pytest.approx(1.0)
        slow = made.night(13, slower=1.3 * 1.2)
        again = made.night(13, role=Role.RERUN, hour=2, slower=1.3 * 1.2)
        pinned = made.night(13, role=Role.PINNED, hour=1, slower=1.3, commit="0" * 40)
        assert gate_night(history, slow, pinned=pinned, rerun=again).exit_code == 1


def test_another_pinned_build_starts_anew():
    with pinned_history(11, lambda _: 1.0) as history:
        pinned = made.night(12, role=Role.PINNED, hour=1, commit="1" * 40)
        result = gate_night(history, made.night(12), pinned=pinned)
    assert result.exit_code == 2 and "0 of 10 valid nights with a pinned run" in reasons(result)


def test_what_cannot_be_a_pinned_or_second_run(past):
    tonight = made.night(13)
    for name, role in (("pinned", Role.PINNED), ("rerun", Role.RERUN)):
        with pytest.raises(ConfigError, match="has to be another one"):
            gate_night(past, tonight, **{name: tonight})
        with pytest.raises(ComparabilityError, match=r"judge.name: null \| base"):
            gate_night(past, tonight, **{name: made.night(13, role=role, keys={"judge.name": "base"})})
    with pytest.raises(ConfigError, match="is not of the same night"):
        gate_night(past, tonight, pinned=made.night(11, role=Role.PINNED, hour=1))
    with pytest.raises(ConfigError, match="is invalid"):
        broken = made.night(13, role=Role.PINNED, hour=1, reasons=(because(Code.INTERRUPTED),))
        gate_night(past, tonight, pinned=broken)
    other = made.night(
        13, role=Role.RERUN, hour=1, commit=made.commit_of(13), settings={"reference.predictor": "reprefill"}
    )
    with pytest.raises(ComparabilityError, match="of something else"):
        gate_night(past, tonight, rerun=other)


def test_an_advisory_run_is_not_gated(past):
    with pytest.raises(ConfigError, match=ADVISORY):
        gate_night(past, replace(made.night(13), kind="vllm bench serve"))


def test_a_changed_configuration_is_said(past):
    result = gate_night(past, made.night(13, settings={"reference.predictor": "reprefill"}))
    assert "reference.predictor: kv_cache → reprefill" in " ".join(result.notes)


CHAT = {"client.kind": "openai_chat_audio"}
NO_AUDIO = {"ttfp_ms": None, "rtf": None, "audio_per_s": None, "audio_s": None}


def chat_night(number, modalities, *, slower=1.0, **changes):
    text = {"ttft_ms": 20.0 * slower, "tpot_ms": 5.0 * slower, "tokens_per_s": 400.0 / slower}
    wobble = 1 + made.WOBBLE[number % len(made.WOBBLE)] / 100
    text = {name: value * wobble for name, value in text.items()}
    return made.night(number, keys={**CHAT, "client.modalities": modalities}, **text, **changes)


def test_a_text_alone_is_gated_by_its_text():
    with made.history_of([chat_night(number, ["text"], **NO_AUDIO) for number in range(1, 13)]) as history:
        good = gate_night(history, chat_night(13, ["text"], **NO_AUDIO))
        assert good.exit_code == 0 and list(statuses(good)) == ["ttft_ms", "tpot_ms", "tokens_per_s"]
        slow = gate_night(history, chat_night(14, ["text"], slower=1.5, **NO_AUDIO))
        assert set(statuses(slow).values()) == {Status.UNCONFIRMED}


def test_a_chat_is_gated_by_both():
    both = ["text", "audio"]
    with made.history_of([chat_night(number, both) for number in range(1, 13)]) as history:
        result = gate_night(history, chat_night(13, both, slower=1.5))
    found = statuses(result)
    assert list(found) == ["ttfp_ms", "rtf", "audio_per_s", "ttft_ms", "tpot_ms", "tokens_per_s"]
    assert {name for name, status in found.items() if status is Status.PASS} == {"ttfp_ms", "rtf", "audio_per_s"}


def test_a_young_series_says_what_cut_it_off(past):
    """A new driver begins a new series: "too little history" alone would be a riddle."""
    result = gate_night(past, made.night(13, keys={"hardware.gpus": ["NVIDIA H100, driver 570"]}))
    assert result.exit_code == 2 and "0 of 10 valid nights" in reasons(result)
    assert result.notes == (
        "a young series, as tonight was made otherwise than runs/12 of 2026-01-12T02:00:00Z (then | now): "
        'hardware.gpus: null | ["NVIDIA H100, driver 570"]',
    )
    assert gate_night(past, made.night(13)).notes == (), "that of the others is as old as it has to be"


def test_a_first_night_and_other_scenarios_say_nothing_of_the_kind(past):
    assert gate_night(past, made.night(13, scenario="other", keys={"client.seed": 3})).notes == ()
    with History(None) as empty:
        assert gate_night(empty, made.night(1)).notes == ()


def test_a_renamed_scenario_is_said_and_one_that_misses_its_nights(past):
    (note,) = gate_night(past, made.night(13, scenario="qwen3_tts_v2")).notes
    assert "qwen3_tts differs from qwen3_tts_v2 in its name alone (its 12 nights end on 2026-01-12)" in note
    assert gate_night(past, made.night(12, hour=1, scenario="twin")).notes == (), "both run every night"
    (missing,) = gate_night(past, made.night(14, scenario="other", keys={"client.seed": 3})).notes[-1:]
    assert missing.startswith("no night of qwen3_tts (reference (tiny), series ") and missing.endswith("2026-01-12")
    late = gate_night(past, made.night(40, scenario="new", keys={"client.seed": 4})).notes
    assert not any("no night of" in note for note in late), "nobody waits for it any more"


def test_a_night_that_comes_late_is_said(past):
    (note,) = gate_night(past, made.night(10, hour=5)).notes
    assert note.startswith("this night is dated 2026-01-10, before 2 nights of the history (the last of 2026-01-12)")


def test_an_open_change_is_counted_until_a_baseline_accepts_it(past):
    nights = [made.night(number, slower=1.2) for number in range(13, 17)]
    rerun = made.night(13, role=Role.RERUN, hour=1, slower=1.2)
    first = gate_night(past, nights[0], rerun=rerun)
    (change,) = first.changes
    assert first.open_changes == () and change.onset.is_new and len(change.series) == 3
    assert change.onset.commits == (made.commit_of(12), made.commit_of(13))
    for number, night in enumerate(nights[1:], start=2):
        result = gate_night(past, night)
        (change,) = result.open_changes
        assert result.outcome is GateOutcome.PASS and change.onset.nights == number
        assert change.onset.first_bad.run_id == nights[0].run_id and change.onset.last_good.source == "runs/12"
        red = gate_night(past, night, until_accepted=True)
        assert red.outcome is GateOutcome.REGRESSION and red.exit_code == 1
    past.set_baseline([nights[0].run_id], "accepted")
    result = gate_night(past, made.night(17, slower=1.2), until_accepted=True)
    assert result.open_changes == () and result.outcome is GateOutcome.INCONCLUSIVE
    assert "4 of 10 valid nights since the baseline of 20" in reasons(result)


def test_a_rate_search_cannot_be_gated(past):
    night = made.night(13, keys={"load.kind": "rate_search"})
    with pytest.raises(ConfigError, match=r"tries other rates every night; gate load=open_loop"):
        gate_night(past, night)
    assert len(past.series()) == 1, "it is not in the history either"


def test_a_setting_that_an_older_version_did_not_know_is_no_change(past):
    assert gate_night(past, made.night(13, settings={"reference.join_every_frames": 6})).notes == ()
    (note,) = gate_night(past, made.night(14, settings={"reference.join_every_frames": 4})).notes
    assert note.endswith("reference.join_every_frames: 6 → 4")
