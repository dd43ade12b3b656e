"""When a level, and a run, is called invalid: every condition in one place, over facts that others computed. Pure.

A level is invalid for what :func:`level_reasons` finds, and for nothing else. A run is invalid for its own reasons
(:func:`problem_reasons`: what cut it short) and those of its levels, except for levels of a rate search that
:func:`is_excused` accepts. The codes, and who is to blame for each, are in :mod:`omni_bench.records.invalid_reason`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from omni_bench.accuracy.cross_talk.check import LevelCrossTalk
from omni_bench.accuracy.cross_talk.null import SIGNIFICANT
from omni_bench.accuracy.parity.verdict import TRANSCRIPT, LevelParity
from omni_bench.accuracy.signal.level_audio import LevelAudio
from omni_bench.accuracy.signal.level_p import LEVEL_P
from omni_bench.accuracy.wer import CorpusScore
from omni_bench.accuracy.written.normalise import counts_characters
from omni_bench.errors import (
    AccuracyError,
    ConfigError,
    DatasetError,
    OmniBenchError,
    ProtocolError,
    StoreError,
    TargetError,
)
from omni_bench.metrics.level import LevelSummary
from omni_bench.metrics.open_loop import OpenLoop
from omni_bench.metrics.pace import LevelPace
from omni_bench.records.invalid_reason import Code, InvalidReason, invalid, own_reasons, reasons_of
from omni_bench.records.level import Level, is_open_loop, level_of, level_title
from omni_bench.records.recording import LoopLag
from omni_bench.run.level_result import LevelResult
from omni_bench.run.parity import AloneInterrupted

FIRST_LAG_SHARE = 0.1
"""Of TTFP, that may be the client's: a difference of a tenth is what people publish."""
MCNEMAR_LIMIT = 0.01
CORRUPTED_LIMIT = 2
"""This many utterances corrupted under load, and none alone, cannot be explained by errors of the judge.

A clean voice gives fewer than one in a hundred: two out of eight happen by chance in about one level in 400."""

EXACT_AUDIO_SERIES = ("omni_reference_audio_duration_seconds",)
"""Servers' counts that are known to be of the samples that they send; what others count is only shown beside ours."""
LOST_AUDIO_S = 0.010
"""Of the mean answer: resampling rounds by a sample, and nothing else may change the length."""


def level_reasons(
    summary: LevelSummary,
    *,
    lag_budget_ms: float | None = None,
    accuracy: CorpusScore | None = None,
    wer_limit: float = 1.0,
    language: str = "en",
    parity: LevelParity | None = None,
    cross_talk: LevelCrossTalk | None = None,
    rate: InvalidReason | None = None,
    audio: LevelAudio | None = None,
    rate_hz: int | None = None,
    failure: str | None = None,
    accounts: Sequence[Mapping[str, Any]] = (),
) -> tuple[InvalidReason, ...]:
    """Why a level is invalid; () if it is valid.

    Every request, those of the warm-up too, has to succeed with valid audio; the client's lag has to be measured and
    within ``lag_budget_ms`` (None: no budget), and in an open loop so does its lateness; ``accuracy`` has to be within
    ``wer_limit``; parity and cross-talk must find nothing, nor ``audio`` (at ``rate_hz``) in all answers together; as
    much has to arrive as the server's ``accounts`` of the level say, and the ``rate`` must not be in doubt. What is
    None was not checked.
    """
    return (
        *request_reasons(summary, failure),
        *audio_reasons(audio, rate_hz),
        *account_reasons(accounts),
        *client_reasons(summary, lag_budget_ms),
        *wer_reasons(accuracy, wer_limit, language),
        *parity_reasons(parity),
        *cross_talk_reasons(cross_talk),
        *((rate,) if rate is not None else ()),
    )


def request_reasons(summary: LevelSummary, failure: str | None = None) -> Iterator[InvalidReason]:
    requests, faulty, warmup = summary.requests, summary.faulty, summary.warmup
    if requests == 0:
        yield invalid(Code.NO_REQUESTS)
    if summary.measured_before:
        yield invalid(Code.IN_PARTS, before=summary.measured_before, requests=requests)
    short, others = _shortages(summary.errors)
    if summary.failed > short:
        figures = {"failed": summary.failed - short, "requests": requests, "errors": _counts(others)}
        yield invalid(Code.REQUESTS_FAILED, **figures, **({"example": failure} if failure else {}))
    before, sent, rest = 0, 0, {}
    if warmup is not None:
        sent = warmup.completed + warmup.failed
        before, rest = _shortages(warmup.errors)
    if short or before:
        yield invalid(Code.CLIENT_SHORTAGE, failed=short + before, requests=requests + (sent if before else 0))
    if faulty:
        code = Code.INVALID_ANSWER if "no_text" in summary.invalid else Code.INVALID_AUDIO
        yield invalid(code, faulty=faulty, requests=requests, faults=_counts(summary.invalid))
    if warmup is not None and warmup.failed > before:
        yield invalid(Code.WARMUP_FAILED, failed=warmup.failed - before, requests=sent, errors=_counts(rest))


def _shortages(errors: Mapping[str, int]) -> tuple[int, dict[str, int]]:
    """Failures that are the client's own, which no server is blamed for, and the others by kind."""
    others = {kind: count for kind, count in errors.items() if kind != "client_shortage"}
    return errors.get("client_shortage", 0), others


def audio_reasons(audio: LevelAudio | None, rate_hz: int | None) -> Iterator[InvalidReason]:
    """What all answers show together, at p ≤ :data:`LEVEL_P` each."""
    if audio is None:
        return
    of, first = {"answers": audio.answers}, {name: found[0] for name, found in audio.suspects.items()}
    if audio.cut_p is not None and audio.cut_p <= LEVEL_P:
        yield invalid(Code.CUT_OFF, cut=audio.cut, **of, example=first["cut_off"], p=audio.cut_p)
    if audio.splice_p is not None and audio.splice_p <= LEVEL_P:
        yield invalid(Code.SPLICED, **of, example=first.get("spliced", "none of them alone"), p=audio.splice_p)
    if audio.others:
        yield invalid(Code.OTHER_VOICE, others=audio.others, **of, example=first["other_voice"], p=audio.other_p)
    if audio.pause_p is not None and audio.pause_p <= LEVEL_P:
        before, within, after = audio.pausing_at
        figures = {"pausing": audio.pausing, "before": before, "within": within, "after": after}
        figures |= {"quiet": audio.quiet_share, "p": audio.pause_p}
        yield invalid(Code.LONG_PAUSES, **of, example=first["long_pauses"], **figures)
    if audio.wrong_rate is not None:
        yield invalid(Code.WRONG_RATE, rate_hz=rate_hz, **asdict(audio.wrong_rate))


def account_reasons(accounts: Sequence[Mapping[str, Any]]) -> Iterator[InvalidReason]:
    """``accounts``: those of a level, as run.json has them. Only where both sides count the same requests."""
    for one in accounts:
        ours_s, server_s = one["client_mean"], one["server_mean"]
        same = one["client_count"] == one["server_count"] and ours_s is not None
        if one["series"] in EXACT_AUDIO_SERIES and same and abs(ours_s - server_s) > LOST_AUDIO_S:
            yield invalid(Code.AUDIO_LOST, server_s=server_s, client_s=ours_s, answers=one["client_count"])


def client_reasons(summary: LevelSummary, budget_ms: float | None) -> Iterator[InvalidReason]:
    lag = summary.lag
    if budget_ms is not None and lag is None and summary.completed:
        yield invalid(Code.CLIENT_LAG_UNKNOWN)
    elif lag is not None and budget_ms is not None and lag.p99_ms > budget_ms:
        yield client_lag(lag, budget_ms)
    if budget_ms is not None and (first := first_lag(summary, budget_ms)) is not None:
        yield first
    if lag is not None and (apart := lag.clock_error_ms) is not None and budget_ms is not None and apart > budget_ms:
        yield invalid(Code.CLOCKS_APART, nodes=len(lag.nodes), error_ms=apart, budget_ms=budget_ms)
    if (under := under_bias(summary)) is not None:
        yield under
    if summary.open_loop is not None and (late := client_late(summary.open_loop, budget_ms)) is not None:
        yield late


def first_lag(summary: LevelSummary, budget_ms: float) -> InvalidReason | None:
    """Why first bytes were read too late, by the highest percentile that the level reports of its TTFP.

    The limit is :data:`FIRST_LAG_SHARE` of that TTFP, but between a fifth and all of the budget.
    """
    found, ttfp = summary.first_lag_ms, summary.distributions.get("ttfp_ms")
    name = next((one for one in ("p99", "p95", "p90") if found is not None and getattr(found, one) is not None), None)
    if found is None or name is None:
        return None
    of_ttfp_ms = FIRST_LAG_SHARE * ((getattr(ttfp, name) if ttfp is not None else None) or math.inf)
    lag_ms, limit_ms = getattr(found, name), min(budget_ms, max(budget_ms / 5, of_ttfp_ms))
    if lag_ms <= limit_ms:
        return None
    return invalid(Code.CLIENT_LAG_FIRST, lag_ms=lag_ms, percentile=name, budget_ms=limit_ms)


def under_bias(summary: LevelSummary) -> InvalidReason | None:
    """Why the TTFP of a level makes no claim: the client's own part of it, as calibrated, may be all of it."""
    bias, found = summary.lag.bias if summary.lag is not None else None, summary.distributions.get("ttfp_ms")
    if bias is None or found is None or found.p50 is None or found.p50 > bias.p99_ms:
        return None
    return invalid(Code.TTFP_UNDER_BIAS, ttfp_ms=found.p50, bias_ms=bias.p99_ms, concurrency=bias.concurrency)


def rate_facts(level: LevelResult, pace: LevelPace | None) -> InvalidReason | None:
    """Why the sample rate of a level is in doubt; None if it is not. ``pace``: of its voice."""
    if len(level.rates_hz) > 1:
        rates = ", ".join(f"{rate_hz} Hz in {count}" for rate_hz, count in level.rates_hz.most_common())
        return invalid(Code.RATES_DIFFER, rates=rates)
    if pace is None or not pace.in_doubt:
        return None
    stated = "as the server states" if level.states_rate else "client.sample_rate_hz; the server states none"
    expected = pace.expected.letters_per_s
    return invalid(
        Code.RATE_IN_DOUBT,
        rate_hz=level.sample_rate_hz,
        stated=stated,
        pace=pace.letters_per_s,
        source="reference recordings" if pace.expected.source == "references" else "language",
        low=expected * math.exp(-pace.tolerance),
        high=expected * math.exp(pace.tolerance),
        fitting=", ".join(map(str, pace.fitting_hz[:3])),
    )


def client_lag(lag: LoopLag, budget_ms: float) -> InvalidReason:
    """Why a client whose lag is above the budget is late: it had no CPU, if it keeps the budget without those waits."""
    cpu = lag.cpu
    if cpu is None or cpu.lag_p99_ms > budget_ms:
        return invalid(Code.CLIENT_LAG, p99_ms=lag.p99_ms, budget_ms=budget_ms)
    cores = f"{cpu.cores} core{'s' if cpu.cores != 1 else ''}"
    sharing = f"client and {'server' if cpu.with_server else 'other programs'} share {cores}"
    figures = {"p99_ms": lag.p99_ms, "own_p99_ms": cpu.lag_p99_ms, "budget_ms": budget_ms}
    return invalid(Code.CLIENT_WAITED, wait_s=cpu.wait_s, cores=cpu.cores, sharing=sharing, **figures)


def client_late(facts: OpenLoop, budget_ms: float | None) -> InvalidReason | None:
    """Why the client did not make the load that was asked for; None if it did, or there is no budget."""
    if budget_ms is None or facts.late_p99_ms is None or facts.late_p99_ms <= budget_ms:
        return None
    return invalid(Code.CLIENT_LATE, p99_ms=facts.late_p99_ms, budget_ms=budget_ms)


def wer_reasons(corpus: CorpusScore | None, wer_limit: float, language: str) -> Iterator[InvalidReason]:
    """A judge that could compare nothing makes no claim. By characters, the rate is a CER, and is so called."""
    if corpus is not None and not corpus.words and corpus.excluded:
        yield invalid(Code.NOTHING_COMPARED, excluded=corpus.excluded)
    if corpus is not None and corpus.wer is not None and corpus.wer > wer_limit:
        rate = "CER" if counts_characters(language) else "WER"
        yield invalid(Code.WER, rate=rate, value=corpus.wer, limit=wer_limit)


def parity_reasons(parity: LevelParity | None) -> Iterator[InvalidReason]:
    """A server that claims to be deterministic has to give the same answer in company, and the same when asked twice.

    Any other may sample another code when another batch shape rounds otherwise, so that
    differing codes are a finding and no error, unless words are damaged with them: more often in company than
    alone by McNemar's test, or (if the server repeats itself alone, so that it is the company that
    changed the words) at least :data:`CORRUPTED_LIMIT` corrupted utterances that differ, and none alone. Requests
    that fail when sent alone are failures like others; ``cancelled`` ones are not the server's.
    """
    if parity is None:
        return
    failed = {kind: count for kind, count in parity.failed.items() if kind != "cancelled"}
    if failed:
        yield invalid(Code.SOLO_FAILED, failed=sum(failed.values()), sent=parity.sent, errors=_counts(failed))
    if parity.deterministic and parity.mismatches:
        facts = {"mismatches": parity.mismatches, "compared": parity.compared, "kind": parity.kind}
        yield invalid(Code.PARITY_DIFFERS, **facts)
    if parity.deterministic and parity.repeats_differ:
        yield invalid(Code.PARITY_REPEATS, differ=parity.repeats_differ, repeats=parity.repeats)
    if parity.mcnemar_p is not None and parity.mcnemar_p < MCNEMAR_LIMIT and parity.worse > parity.worse_alone:
        facts = {"worse": parity.worse, "worse_alone": parity.worse_alone, "judged": parity.judged}
        yield invalid(Code.PARITY_WORDS, **facts, p=parity.mcnemar_p)
    elif (
        parity.kind != TRANSCRIPT
        and parity.corrupted_alone == 0
        and min(parity.corrupted, parity.differ) >= CORRUPTED_LIMIT
    ):
        facts = {"corrupted": parity.corrupted, "judged": parity.judged, "differ": parity.differ}
        yield invalid(Code.PARITY_CORRUPTED, **facts, answered=parity.answered)


def cross_talk_reasons(level: LevelCrossTalk | None) -> Iterator[InvalidReason]:
    """Chance explains hits unless their probability is below :data:`SIGNIFICANT`.

    At 32 requests in flight a level has thousands of pairs, so that one weak hit alone proves nothing, but one long
    phrase does.
    """
    if level is None or level.chance is None or level.chance >= SIGNIFICANT:
        return
    first = max(level.hits, key=lambda hit: hit.score)
    whose = f"its own {first.kind}" if first.source == first.victim else first.source
    if first.source != first.victim and first.kind != "target":
        whose += f"'s {first.kind}"
    yield invalid(
        Code.CROSS_TALK,
        victim=first.victim,
        source=whose,
        position=first.position,
        heard=first.heard,
        hits=len(level.hits),
        expected_false_hits=level.expected_false_hits,
    )


def is_excused(level: Mapping[str, Any]) -> bool:
    """Whether a level (of run.json) is invalid only for failed requests, which a rate search provokes on purpose.

    Bad audio, another request's words and the client's own trouble are never excused; nor is
    anything at a rate that holds. WER is, as a failed request counts as wholly wrong.
    """
    probe = level.get("probe")
    if probe is None or probe["holds"] or level["invalid"]:
        return False
    overload = {Code.REQUESTS_FAILED, Code.WARMUP_FAILED, *([Code.WER] if level["failed"] else [])}
    return all(reason.code in overload for reason in reasons_of(level))


def run_reasons(
    own: Sequence[InvalidReason], levels: Sequence[Mapping[str, Any]], excused: Callable[[Mapping[str, Any]], bool]
) -> tuple[InvalidReason, ...]:
    """Why a run is invalid: its ``own`` reasons, that it has no levels, and those of levels that are not excused."""
    return (
        *own,
        *(() if levels else (invalid(Code.NO_LEVELS),)),
        *(
            replace(reason, level=level_title(level_of(level)))
            for level in levels
            if not excused(level)
            for reason in reasons_of(level)
        ),
    )


def problem_reasons(
    problem: BaseException | None, *, folder: Path, while_judging: bool, missing: Sequence[Level]
) -> tuple[InvalidReason, ...]:
    """A run's own reasons: what cut it short (None: nothing did), and which planned levels are ``missing``.

    Files of the run are named as they lie in its ``folder``, wherever that was.
    """
    if problem is None:
        return ()
    reason = _problem_reason(problem, folder)
    if while_judging:
        reason = invalid(Code.JUDGING_UNFINISHED, why=reason.text, cause=reason.code)
    if not missing:
        return (reason,)
    kind = "" if is_open_loop(missing) else "concurrency "
    return reason, invalid(Code.NOT_MEASURED, levels=f"{kind}{', '.join(map(str, missing))}")


def _problem_reason(problem: BaseException, folder: Path) -> InvalidReason:
    if isinstance(problem, AloneInterrupted):
        return invalid(Code.INTERRUPTED_ALONE, what=str(problem))
    if isinstance(problem, KeyboardInterrupt):
        return invalid(Code.INTERRUPTED)
    said = str(problem).replace(f"{folder}/", "")
    if not isinstance(problem, (OmniBenchError, OSError)):
        return invalid(Code.INTERNAL_ERROR, type=type(problem).__name__, message=said)
    code = next((code for kinds, code in _PROBLEMS if isinstance(problem, kinds)), Code.CLIENT_BROKE)
    first = next(iter(said.splitlines()), type(problem).__name__)  # an end of a log may follow
    return invalid(code, message=first.removesuffix(":"))


_PROBLEMS = (
    ((TargetError, ProtocolError), Code.SERVER_BROKE),
    (AccuracyError, Code.JUDGE_BROKE),
    ((ConfigError, DatasetError), Code.MISCONFIGURED),
    ((StoreError, OSError), Code.NOT_STORED),
)
"""Whose error it is; any other is the client's."""


def carried_over(run: Mapping[str, Any], *, judged_now: bool) -> tuple[InvalidReason, ...]:
    """The run's own reasons that stand when its levels are derived again; ``judged_now``: and judged again."""
    gone = {Code.NO_LEVELS, *([Code.JUDGING_UNFINISHED] if judged_now else [])}
    return tuple(reason for reason in own_reasons(run) if reason.code not in gone)


def was_interrupted(run: Mapping[str, Any]) -> bool:
    """Whether somebody cut the load phase of a run.json short."""
    return any(reason.code in (Code.INTERRUPTED, Code.INTERRUPTED_ALONE) for reason in own_reasons(run))


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())
