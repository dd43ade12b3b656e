"""When a level and a run are invalid, and that no verdict anywhere hangs on how a reason is worded."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest
import run_factory as runs

import omni_bench
from omni_bench.accuracy.wer import score_corpus, score_utterance
from omni_bench.errors import AccuracyError, DatasetError, StoreError, TargetError
from omni_bench.metrics.level import Warmup, summarise_level
from omni_bench.metrics.request import request_metrics
from omni_bench.records.invalid_reason import Blame, Code, InvalidReason, invalid, next_steps, reasons_of
from omni_bench.records.recording import CpuWait, LoopLag, NodeClock
from omni_bench.records.timeline import RequestError
from omni_bench.run.level_result import LevelResult, RequestResult
from omni_bench.run.parity import AloneInterrupted
from omni_bench.run.validity import (
    LOST_AUDIO_S,
    account_reasons,
    carried_over,
    client_lag,
    is_excused,
    level_reasons,
    problem_reasons,
    rate_facts,
    run_reasons,
    wer_reasons,
)


def judged(timelines, faults=None, *, lag_budget_ms=None, **facts):
    """The texts of why a level of these requests is invalid."""
    metrics = [request_metrics(one, None) for one in timelines]
    summary = summarise_level(1, timelines, metrics, faults or {}, **facts)
    return [str(reason) for reason in level_reasons(summary, lag_budget_ms=lag_budget_ms)]


def result(timeline):
    return RequestResult(timeline, "A text.", "en", request_metrics(timeline, None), (), None)


def test_failures_and_invalid_audio_make_a_level_invalid():
    good, failed = runs.timeline("a"), [runs.failed_timeline("b"), runs.failed_timeline("c")]
    assert judged([good]) == []
    faults = {"a": ("silent", "truncated"), "b": ("empty",)}
    assert judged([good, *failed, runs.timeline("d")], faults) == [
        "2 of 4 requests failed (connect 2)",
        "1 of 4 requests have invalid audio (silent 1, truncated 1)",
    ]
    assert judged([]) == ["no request was measured"]


def test_a_failure_is_told_in_the_servers_words():
    said = {"a": ("timeout", "late"), "b": ("http_status", "HTTP 429: slow down"), "c": ("http_status", "HTTP 500")}
    failed = [replace(runs.failed_timeline(name), error=RequestError(*error)) for name, error in said.items()]
    level = LevelResult(1, tuple(result(one) for one in failed), None)
    (reason,) = level_reasons(level.summary(), failure=level.failure)
    assert reason.text == "3 of 3 requests failed (http_status 2, timeout 1), such as b: HTTP 429: slow down"


def test_answers_of_different_rates_make_no_claim():
    rates = {"a": 24_000, "b": 16_000, "c": 24_000}
    heard = [result(replace(runs.timeline(name), sample_rate_hz=rate)) for name, rate in rates.items()]
    reason = rate_facts(LevelResult(1, tuple(heard), None), None)
    assert reason.code == "rates_differ" and "24000 Hz in 2, 16000 Hz in 1" in reason.text
    assert rate_facts(LevelResult(1, (heard[0], heard[2]), None), None) is None


@pytest.mark.parametrize(
    ("lag_budget_ms", "fails", "reasons"),
    [
        (25.0, False, ["client lag was not measured"]),
        (None, False, []),
        (25.0, True, ["1 of 1 requests failed (connect 1)"]),
    ],
)
def test_a_lag_that_was_not_measured(lag_budget_ms, fails, reasons):
    """With completed requests and a budget the level is invalid; without a completed one there is nothing to doubt."""
    timeline = runs.failed_timeline("a") if fails else runs.timeline("a")
    assert judged([timeline], lag_budget_ms=lag_budget_ms) == reasons


def test_a_judge_that_could_compare_nothing_makes_no_claim():
    """Six texts in brackets, with the answers of other requests, were valid: nothing compared was nothing wrong."""
    nothing = score_corpus("tiny.en", [score_utterance(f"r{i}", "...", "", "en") for i in range(6)])
    (reason,) = wer_reasons(nothing, 0.15, "en")
    assert (reason.code, reason.blame) == (Code.NOTHING_COMPARED, Blame.JUDGE) and "none of 6 texts" in reason.text
    some = score_corpus("tiny.en", [score_utterance("a", "...", "", "en"), score_utterance("b", "yes", "yes", "en")])
    assert list(wer_reasons(some, 0.15, "en")) == []


def test_a_failed_warm_up_makes_the_level_invalid():
    assert judged([runs.timeline("a")], warmup=Warmup(completed=2, failed=0, errors={})) == []
    bad = Warmup(completed=1, failed=1, errors={"http_status": 1})
    assert judged([runs.timeline("a")], warmup=bad) == ["warm-up failed: 1 of 2 requests (http_status 1)"]


def test_a_shortage_of_the_client_in_the_warm_up_is_the_clients():
    warmup = Warmup(completed=1, failed=16, errors={"client_shortage": 15, "timeout": 1})
    metrics = [request_metrics(runs.timeline("a"), None)]
    found = level_reasons(summarise_level(1, [runs.timeline("a")], metrics, {}, warmup=warmup), lag_budget_ms=None)
    assert [(one.code, one.blame) for one in found] == [
        (Code.CLIENT_SHORTAGE, Blame.CLIENT),
        (Code.WARMUP_FAILED, Blame.SERVER),
    ]
    assert found[0].text.startswith("15 of 18 requests failed because the client's machine")
    assert found[1].text == "warm-up failed: 1 of 17 requests (timeout 1)"
    assert "ulimit -n" in " ".join(next_steps(found))


@pytest.mark.parametrize(("p99_ms", "count"), [(25.0, 0), (25.1, 1)])
def test_the_clients_lag_budget(p99_ms, count):
    lag = LoopLag(p50_ms=0.1, p99_ms=p99_ms, max_ms=99.0, samples=500)
    found = judged([runs.timeline("a")], lag=lag, lag_budget_ms=25.0)
    assert len(found) == count and all("lagged 25.1 ms at p99, budget 25 ms" in reason for reason in found)


@pytest.mark.parametrize(("error_ms", "count"), [(25.0, 0), (25.1, 1)])
def test_nodes_whose_clocks_are_not_known_well_enough(error_ms, count):
    nodes = (NodeClock("10.0.0.1", 2, 0.0, 0.2, True), NodeClock("10.0.0.2", 2, -7e6, error_ms, False))
    lag = LoopLag(p50_ms=0.1, p99_ms=1.0, max_ms=2.0, samples=500, nodes=nodes)
    found = judged([runs.timeline("a")], lag=lag, lag_budget_ms=25.0)
    assert len(found) == count and all("clocks of the 2 nodes" in one and "25.1 ms only" in one for one in found)


def test_first_bytes_that_waited_in_the_client():
    """A burst that is read 30 ms late is late, whatever share of the time the loop was free."""

    def first_read(lags_ms):
        return [replace(runs.timeline(f"r{i}"), first_lag_ns=round(ms * 1e6)) for i, ms in enumerate(lags_ms)]

    lag = LoopLag(p50_ms=0.1, p99_ms=1.0, max_ms=40.0, samples=5000)
    (late,) = judged(first_read([1.0] * 12 + [30.0] * 4), lag=lag, lag_budget_ms=25.0)
    assert late.startswith("first bytes waited up to 30.0 ms in the client before they were read (p90 over requests)")
    assert judged(first_read([1.0] * 15 + [30.0]), lag=lag, lag_budget_ms=25.0) == []  # one of 16 moves no figure
    (late,) = judged(first_read([1.0] * 290 + [30.0] * 10), lag=lag, lag_budget_ms=25.0)
    assert "(p99 over requests)" in late


@pytest.mark.parametrize(
    ("ttfp_ms", "lag_ms", "limit"),
    [
        (69, 12.9, "limit 6.9 ms"),
        (129, 12.8, None),
        (20, 4.9, None),
        (20, 5.1, "limit 5 ms"),
        (900, 25.1, "limit 25 ms"),
    ],
)
def test_first_bytes_may_wait_for_a_tenth_of_ttfp(ttfp_ms, lag_ms, limit):
    """A burst at c = 64 whose first bytes were read 12.9 ms late was valid while the budget held."""
    late = [replace(runs.timeline(f"r{i}", ttfp_ms=ttfp_ms), first_lag_ns=round(lag_ms * 1e6)) for i in range(16)]
    lag = LoopLag(p50_ms=0.1, p99_ms=1.0, max_ms=40.0, samples=5000)
    assert [reason.split(", ")[1].split(":")[0] for reason in judged(late, lag=lag, lag_budget_ms=25.0)] == (
        [limit] if limit else []
    )


@pytest.mark.parametrize(
    ("cpu", "code", "says"),
    [
        (None, Code.CLIENT_LAG, "lagged 30.0 ms"),
        (CpuWait(9.0, 26.0, 2, True), Code.CLIENT_LAG, "lagged 30.0 ms"),  # too late without the waits, too
        (CpuWait(9.04, 25.0, 2, True), Code.CLIENT_WAITED, "waited 9.0 s for a CPU: client and server share 2 cores ("),
        (CpuWait(9.0, 1.0, 1, False), Code.CLIENT_WAITED, "client and other programs share 1 core (lag 30.0 ms at p99"),
    ],
)
def test_a_client_that_had_no_cpu_says_so(cpu, code, says):
    lag = LoopLag(p50_ms=0.1, p99_ms=30.0, max_ms=99.0, samples=500, cpu=cpu)
    reason = client_lag(lag, 25.0)
    assert reason.code == code and reason.blame == "client" and says in reason.text
    assert judged([runs.timeline("a")], lag=lag, lag_budget_ms=25.0) == [reason.text]


@pytest.mark.parametrize(
    ("problem", "code", "text"),
    [
        (TargetError("the server died:\nits log"), Code.SERVER_BROKE, "the server died"),
        (AccuracyError("no weights"), Code.JUDGE_BROKE, "no weights"),
        (DatasetError("no such set"), Code.MISCONFIGURED, "no such set"),
        (StoreError("disk full"), Code.NOT_STORED, "disk full"),
        (OSError("disk full"), Code.NOT_STORED, "disk full"),
        (TimeoutError(), Code.NOT_STORED, "TimeoutError"),
        (TargetError("it died; its log /runs/1/server.log:\n"), Code.SERVER_BROKE, "it died; its log server.log"),
        (OSError(28, "No space", "/runs/1/run.json"), Code.NOT_STORED, "[Errno 28] No space: 'run.json'"),
        (ZeroDivisionError("a bug"), Code.INTERNAL_ERROR, "internal error: ZeroDivisionError: a bug"),
        (KeyboardInterrupt(), Code.INTERRUPTED, "the run was interrupted"),
        (AloneInterrupted("interrupted while alone"), Code.INTERRUPTED_ALONE, "the run was interrupted while alone"),
    ],
)
def test_what_cut_a_run_short_has_a_code(problem, code, text):
    (reason,) = problem_reasons(problem, folder=Path("/runs/1"), while_judging=False, missing=())
    assert (reason.code, reason.text) == (code, text)
    first, second = problem_reasons(problem, folder=Path("/runs/1"), while_judging=True, missing=(4, 8))
    assert first.code == Code.JUDGING_UNFINISHED and first.text == f"judging did not finish: {text}"
    assert second.code == Code.NOT_MEASURED and second.text == "not measured: concurrency 4, 8"
    assert problem_reasons(None, folder=Path("/runs/1"), while_judging=False, missing=()) == ()


def overloaded(*codes, holds=False, failed=3, faults=None):
    reasons = [InvalidReason(code, code.blame, "x").to_json() for code in codes]
    level = {"concurrency": 1, "rate_hz": 8.0, "failed": failed, "invalid": faults or {}, "valid": not codes}
    return {**level, "invalid_reasons": reasons, "probe": {"holds": holds}}


def account(server_mean, client_mean=2.0, client_count=32, series="omni_reference_audio_duration_seconds"):
    facts = {"client_mean": client_mean, "server_mean": server_mean, "client_count": client_count, "server_count": 32}
    return list(account_reasons([{"series": series, **facts}]))


def test_audio_that_the_server_counts_and_the_client_does_not_have_is_lost():
    """60 ms of every answer, as a proxy may lose them: in whichever direction, and by more than rounding."""
    (lost,) = account(2.06)
    assert lost.code == Code.AUDIO_LOST and lost.figures == {"server_s": 2.06, "client_s": 2.0, "answers": 32}
    assert [one.code for one in account(1.94)] == [Code.AUDIO_LOST]
    assert account(2.0 + 0.9 * LOST_AUDIO_S) == [] == account(2.06, client_count=31) == account(2.06, series="other")
    assert account(2.06, client_mean=None) == []


@pytest.mark.parametrize(
    ("level", "excused"),
    [
        (overloaded(Code.REQUESTS_FAILED, Code.WARMUP_FAILED, Code.WER), True),
        (overloaded(Code.WER, failed=0), False),
        (overloaded(Code.REQUESTS_FAILED, holds=True), False),
        (overloaded(Code.REQUESTS_FAILED, faults={"silent": 1}), False),
        *((overloaded(code), False) for code in sorted(set(Code) - {"requests_failed", "warmup_failed", "wer"})),
        ({**overloaded(Code.REQUESTS_FAILED), "probe": None}, False),
    ],
)
def test_a_rate_search_excuses_what_an_overload_does_and_nothing_else(level, excused):
    assert is_excused(level) is excused
    assert [str(reason) for reason in run_reasons((), [level], is_excused)] == ([] if excused else [
        f"8 req/s: {reason.text}" for reason in reasons_of(level)
    ])  # fmt: skip


def test_what_stands_when_a_run_is_derived_again():
    codes = (Code.INTERRUPTED, Code.JUDGING_UNFINISHED, Code.NO_LEVELS)
    stored = [InvalidReason(code, code.blame, "x").to_json() for code in codes]
    stored.append({**stored[0], "level": "concurrency 2"})
    run = {"valid": False, "levels": [], "invalid_reasons": stored}
    assert [one.code for one in carried_over(run, judged_now=False)] == [Code.INTERRUPTED, Code.JUDGING_UNFINISHED]
    assert [one.code for one in carried_over(run, judged_now=True)] == [Code.INTERRUPTED]


def test_the_table_of_codes():
    for code in Code:
        assert re.fullmatch("[a-z][a-z_]*", code.value) and code.blame in Blame
        assert code.next_step.endswith(".") and len(code.next_step) <= 80, code
    later = InvalidReason("only_a_later_version_knows", "server", "text", {"n": 1}, "concurrency 2")
    assert InvalidReason.from_json(later.to_json()) == later and str(later) == "concurrency 2: text"
    assert next_steps([later, invalid(Code.CLIENT_LAG_UNKNOWN), invalid(Code.NO_LEVELS)]) == [Code.NO_LEVELS.next_step]


def test_invalid_without_a_reason_is_still_invalid():
    level = {"valid": False, "invalid_reasons": []}
    assert [one.code for one in reasons_of(level)] == [Code.UNSTATED]
    assert [one.code for one in reasons_of({**level, "levels": []})] == [Code.UNSTATED]
    assert reasons_of({**level, "levels": [level]}) == (), "the level says it"


def test_no_program_reads_the_text_of_a_reason():
    """No method that looks into a text, and no comparison, is applied to one outside of the reader of old files."""
    looks = {"startswith", "endswith", "find", "index", "split", "partition", "match"}
    for_people = {"reason in outer"}  # of a configuration's error: whether the sentence around it has it already
    readers = []
    for path in sorted(Path(omni_bench.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            texts = []
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in looks:
                texts = [node.func.value, *node.args]
            elif isinstance(node, ast.Compare) and not isinstance(node.ops[0], (ast.Is, ast.IsNot)):
                texts = [node.left, *node.comparators]
            if any(re.search(r"reason(s\[\d+\]|\.text)?$|\.(why|message)$", ast.unparse(one)) for one in texts):
                readers.append(ast.unparse(node))
    assert set(readers) <= for_people
