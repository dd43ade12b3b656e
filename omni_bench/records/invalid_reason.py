"""Why a level or a run makes no performance claim: a code that decides, and a text that explains.

:class:`Code` is the one table: each code with who is to blame, its text, and what a person should do next. Programs
read ``code`` and ``blame``, never ``text``. When a level is invalid is decided in :mod:`omni_bench.run.validity`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Union

Figure = Union[int, float, str, None]


class Blame(StrEnum):
    """Who is to blame: what was measured, what measured it, what judged it, or what was asked for."""

    SERVER = "server"
    CLIENT = "client"
    JUDGE = "judge"
    CONFIGURATION = "configuration"


_REQUESTS = "Read the errors in requests.jsonl and the end of the server's log."
_AUDIO = "Listen to the files in audio/; the report lists the requests."
_PARITY = "Look up the first difference in the report."
_BUSY = "Free the client's CPU cores or lower the load, then run again."
_AGAIN = "Run it again."
_RESUME = "Go on with it: omni-bench run --resume RUN."


class Code(StrEnum):
    """Every reason by its code. ``text`` is filled in with the figures of a reason."""

    blame: Blame
    text: str
    next_step: str

    def __new__(cls, code: str, blame: Blame, text: str, next_step: str) -> Code:
        member = str.__new__(cls, code)
        member._value_ = code
        member.blame, member.text, member.next_step = blame, text, next_step
        return member

    # of a level
    NO_REQUESTS = ("no_requests", Blame.SERVER, "no request was measured", _REQUESTS)
    REQUESTS_FAILED = ("requests_failed", Blame.SERVER, "{failed} of {requests} requests failed ({errors})", _REQUESTS)
    INVALID_AUDIO = (
        "invalid_audio",
        Blame.SERVER,
        "{faulty} of {requests} requests have invalid audio ({faults})",
        _AUDIO,
    )
    INVALID_ANSWER = (
        "invalid_answer",
        Blame.SERVER,
        "{faulty} of {requests} requests have an invalid answer ({faults})",
        "Read the replies in requests.jsonl.",
    )
    WARMUP_FAILED = (
        "warmup_failed",
        Blame.SERVER,
        "warm-up failed: {failed} of {requests} requests ({errors})",
        _REQUESTS,
    )
    CUT_OFF = (
        "cut_off",
        Blame.SERVER,
        "{cut} of {answers} answers stop in the middle of speech, such as {example} (p = {p:.1g})",
        _AUDIO,
    )
    SPLICED = (
        "spliced",
        Blame.SERVER,
        "samples are missing within the answers: the waveform jumps, most in {example} (p = {p:.1g} over {answers})",
        _AUDIO,
    )
    OTHER_VOICE = (
        "other_voice",
        Blame.SERVER,
        "{others} of {answers} answers are in another voice, such as {example} (p = {p:.1g})",
        _AUDIO,
    )
    LONG_PAUSES = (
        "long_pauses",
        Blame.SERVER,
        "{pausing} of {answers} answers have longer silence than their texts ask for, such as {example} (before the "
        "speech {before}, within {within}, after it {after}; p = {p:.1g}); {quiet:.0%} of the audio is no speech: "
        "RTF, audio/s and, with silence first, TTFP make no claim",
        _AUDIO,
    )
    WRONG_RATE = (
        "wrong_rate",
        Blame.SERVER,
        "samples that seem to be made at {made_at_hz} Hz are played at {rate_hz} Hz: against {references} recordings "
        "of the voice its pitch is × {f0:.3f}, its formants × {formants:.3f}, its pace × {pace:.3f}",
        "Check the sample rate that the server states, or client.sample_rate_hz.",
    )
    AUDIO_LOST = (
        "audio_lost",
        Blame.SERVER,
        "the server counts {server_s:.3f} s of audio an answer, and {client_s:.3f} s arrived (means of {answers})",
        "Look for what changes the audio on its way: a proxy, a resampler.",
    )
    CLIENT_LAG_UNKNOWN = ("client_lag_unknown", Blame.CLIENT, "client lag was not measured", _AGAIN)
    CLIENT_LAG = (
        "client_lag",
        Blame.CLIENT,
        "the client's event loop lagged {p99_ms:.1f} ms at p99, budget {budget_ms:g} ms",
        _BUSY,
    )
    CLIENT_WAITED = (
        "client_waited",
        Blame.CLIENT,
        "the client waited {wait_s:.1f} s for a CPU: {sharing} (lag {p99_ms:.1f} ms at p99, without the waits "
        "{own_p99_ms:.1f} ms, budget {budget_ms:g} ms)",
        "Give the client a core (target.cores, taskset) or lower the load; run again.",
    )
    CLIENT_SHORTAGE = (
        "client_shortage",
        Blame.CLIENT,
        "{failed} of {requests} requests failed because the client's machine ran short of files, ports or memory",
        "Raise the limit that requests.jsonl names (ulimit -n) or lower the load.",
    )
    RATE_IN_DOUBT = (
        "rate_in_doubt",
        Blame.CONFIGURATION,
        "the sample rate of {rate_hz} Hz ({stated}) is in doubt: with it the voice speaks {pace:.1f} letters a second; "
        "by the {source}, {low:.1f} to {high:.1f} are expected; RTF and audio/s make no claim, {fitting} Hz would fit",
        "Set client.sample_rate_hz; if the voice does speak so, checks.pace=false.",
    )
    RATES_DIFFER = (
        "rates_differ",
        Blame.SERVER,
        "the answers have different sample rates: {rates}; RTF and audio/s make no claim",
        "Look for what states the rate, or resamples some of the answers.",
    )
    CLIENT_LAG_FIRST = (
        "client_lag_first",
        Blame.CLIENT,
        "first bytes waited up to {lag_ms:.1f} ms in the client before they were read ({percentile} over requests), "
        "limit {budget_ms:.3g} ms: a tenth of TTFP, load.lag_budget_ms at most and a fifth of that at least",
        _BUSY,
    )
    TTFP_UNDER_BIAS = (
        "ttfp_under_bias",
        Blame.CLIENT,
        "the median TTFP of {ttfp_ms:.2f} ms is not above what this client may add to it, {bias_ms:.2f} ms (p99 at "
        "{concurrency} streams by omni-bench calibrate): it says nothing about the server",
        "Give the client more cores, or load.workers; calibrate and run again.",
    )
    CLOCKS_APART = (
        "clocks_apart",
        Blame.CLIENT,
        "the clocks of the {nodes} nodes that made the load are known within {error_ms:.1f} ms only, budget "
        "{budget_ms:g} ms: what they stamped cannot be put together",
        "Make the load from nodes on one fast network, or here (load.engine=local).",
    )
    CLIENT_LATE = (
        "client_late",
        Blame.CLIENT,
        "the client could not hold its schedule: requests started {p99_ms:.1f} ms late at p99, budget {budget_ms:g} ms",
        _BUSY,
    )
    IN_PARTS = (
        "in_parts",
        Blame.CLIENT,
        "the level was cut short and gone on with: {before} of {requests} requests were measured before, so that it "
        "makes no claim of speed",
        "Measure this level in a new run.",
    )
    WER = (
        "wer",
        Blame.SERVER,
        "{rate} {value:.1%} is above asr.wer_limit={limit:g} ({limit:.1%})",
        "Read wer_evidence.md.",
    )
    NOTHING_COMPARED = (
        "nothing_compared",
        Blame.JUDGE,
        "nothing was compared: none of {excluded} texts has words to compare with what was heard",
        "Give it texts with words, or run without a judge (asr=none).",
    )
    SOLO_FAILED = (
        "solo_failed",
        Blame.SERVER,
        "{failed} of {sent} requests failed when sent alone ({errors})",
        "Read the errors in solo.jsonl and the end of the server's log.",
    )
    PARITY_DIFFERS = (
        "parity_differs",
        Blame.SERVER,
        "parity: {mismatches} of {compared} answers differ from those to the same requests sent alone (compared by "
        "{kind}), and the server claims to be deterministic",
        _PARITY,
    )
    PARITY_REPEATS = (
        "parity_repeats",
        Blame.SERVER,
        "parity: {differ} of {repeats} requests sent twice without company got another answer the second time, and "
        "the server claims to be deterministic",
        _PARITY,
    )
    PARITY_WORDS = (
        "parity_words",
        Blame.SERVER,
        "parity: words are damaged in company, {worse} utterances against {worse_alone} alone of {judged} "
        "(McNemar p = {p:.2g})",
        _PARITY,
    )
    PARITY_CORRUPTED = (
        "parity_corrupted",
        Blame.SERVER,
        "parity: {corrupted} of {judged} utterances are corrupted in company and none alone, and {differ} of "
        "{answered} answers differ",
        _PARITY,
    )
    CROSS_TALK = (
        "cross_talk",
        Blame.SERVER,
        'cross-talk: request {victim} speaks words of {source} ({position}: "{heard}")',
        "Listen to the victims in audio/; cross_talk.jsonl lists them.",
    )
    CROSS_TALK_REPEATS = (
        "cross_talk_repeats",
        Blame.SERVER,
        "cross-talk repeats: {hits} hits tonight, {before} the night before",
        "Listen to the victims in audio/; cross_talk.jsonl lists them.",
    )
    CLAIMS_VALID = (
        "claims_valid",
        Blame.SERVER,
        "{failed} requests failed and {faulty} gave invalid audio",
        "Find out what wrote this run.json: its level calls itself valid.",
    )
    BENCH_FAILED = ("bench_failed", Blame.SERVER, "{failed} of {requests} requests failed", "Read the server's log.")
    NONE_COMPLETED = ("none_completed", Blame.SERVER, "no request was completed", "Read the server's log.")
    # of a run
    INTERRUPTED = ("interrupted", Blame.CLIENT, "the run was interrupted", _RESUME)
    INTERRUPTED_ALONE = ("interrupted_alone", Blame.CLIENT, "the run was {what}", _RESUME)
    JUDGING_UNFINISHED = (
        "judging_unfinished",
        Blame.JUDGE,
        "judging did not finish: {why}",
        "Judge the kept audio: omni-bench judge RUN.",
    )
    NOT_MEASURED = ("not_measured", Blame.CLIENT, "not measured: {levels}", _RESUME)
    NO_LEVELS = ("no_levels", Blame.CLIENT, "no level was measured", _AGAIN)
    SERVER_BROKE = ("server_broke", Blame.SERVER, "{message}", "Read the end of the server's log.")
    CLIENT_BROKE = ("client_broke", Blame.CLIENT, "{message}", _AGAIN)
    JUDGE_BROKE = ("judge_broke", Blame.JUDGE, "{message}", "Check the judge with omni-bench doctor.")
    MISCONFIGURED = ("misconfigured", Blame.CONFIGURATION, "{message}", "Correct the configuration and run again.")
    NOT_STORED = ("not_stored", Blame.CLIENT, "{message}", "Make room on the disk, or choose another run folder.")
    INTERNAL_ERROR = ("internal_error", Blame.CLIENT, "internal error: {type}: {message}", "Report this bug.")
    # of either
    UNSTATED = (
        "unstated",
        Blame.SERVER,
        "the {what} says that it is invalid, without a reason",
        "Find out what wrote this run.json.",
    )
    UNKNOWN = ("unknown", Blame.SERVER, "{text}", "Read the report of the run.")


@dataclass(frozen=True)
class InvalidReason:
    """One reason. ``figures``: what its text was made of. ``level``: which level of a run it is of, None for its own.

    ``code`` may be one that only a later omni-bench knows.
    """

    code: str
    blame: str
    text: str
    figures: Mapping[str, Figure] = field(default_factory=dict, hash=False)
    level: str | None = None

    def __str__(self) -> str:
        return self.text if self.level is None else f"{self.level}: {self.text}"

    @property
    def next_step(self) -> str | None:
        """What a person should do next; None for a code that is not known here."""
        return Code(self.code).next_step if self.code in _CODES else None

    def to_json(self) -> dict[str, Any]:
        """As run.json has it: ``level`` only where there is one."""
        stored = {"code": str(self.code), "blame": str(self.blame), "text": self.text, "figures": dict(self.figures)}
        return stored if self.level is None else {**stored, "level": self.level}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> InvalidReason:
        """Back from :meth:`to_json`."""
        return cls(**{name: stored.get(name) for name in ("code", "blame", "text", "figures", "level")})


_CODES = frozenset(Code)
AUDIO_CODES = frozenset(
    {Code.CUT_OFF, Code.SPLICED, Code.OTHER_VOICE, Code.LONG_PAUSES, Code.WRONG_RATE, Code.AUDIO_LOST}
)
"""What all answers of a level show together."""
CROSS_TALK_CODES = frozenset({Code.CROSS_TALK})
PARITY_CODES = frozenset({Code.PARITY_DIFFERS, Code.PARITY_REPEATS, Code.PARITY_WORDS, Code.PARITY_CORRUPTED})


def invalid(code: Code, **figures: Figure) -> InvalidReason:
    """The reason of a code, with the text that its figures make."""
    return InvalidReason(code.value, code.blame.value, text_of(code, figures), figures)


def text_of(code: Code, figures: Mapping[str, Figure]) -> str:
    """The sentence for people."""
    text = code.text.format(**figures)
    if code is Code.REQUESTS_FAILED and figures.get("example"):
        text += f", such as {figures['example']}"
    if code is Code.CROSS_TALK:
        hits, expected = figures["hits"], figures["expected_false_hits"]
        text += f" and {hits - 1} more such outputs" if hits > 1 else ""
        text += "" if expected is None else f"; {expected:.2g} expected by chance"
    return text


def reasons_of(record: Mapping[str, Any]) -> tuple[InvalidReason, ...]:
    """Why a run.json, or one of its ``levels``, is invalid; of a level, and of a run with valid levels, never empty."""
    found = tuple(map(InvalidReason.from_json, record["invalid_reasons"]))
    if found or record["valid"] or not all(level["valid"] for level in record.get("levels", ())):
        return found
    return (invalid(Code.UNSTATED, what="run" if "levels" in record else "level"),)


def client_last(reasons: Iterable[InvalidReason]) -> tuple[InvalidReason, ...]:
    """As people should read them: that a server says the wrong words matters more than how it was timed."""
    return tuple(sorted(reasons, key=lambda reason: reason.blame == Blame.CLIENT))


def nothing_compared(accuracy: Mapping[str, Any] | None) -> tuple[InvalidReason, ...]:
    """Why a level of run.json, valid as it may call itself, makes no claim: its judge could compare no text."""
    if accuracy is None or accuracy.get("words") or not accuracy.get("excluded"):
        return ()
    return (invalid(Code.NOTHING_COMPARED, excluded=accuracy["excluded"]),)


def own_reasons(run: Mapping[str, Any]) -> tuple[InvalidReason, ...]:
    """Why a run.json is invalid, but for the reasons of its levels."""
    return tuple(reason for reason in reasons_of(run) if reason.level is None)


def measured_before(level: Mapping[str, Any]) -> int:
    """How many requests of a level of run.json are of an attempt that was cut short."""
    counts = (reason.figures.get("before") for reason in reasons_of(level) if reason.code == Code.IN_PARTS)
    return next((count for count in counts if isinstance(count, int)), 0)


def next_steps(reasons: Iterable[InvalidReason]) -> list[str]:
    """What a person should do next, each step once; not "again" what can be gone on with, or is to be measured anew."""
    steps = dict.fromkeys(reason.next_step for reason in reasons if reason.next_step is not None)
    if not steps.keys().isdisjoint((_RESUME, Code.IN_PARTS.next_step)):
        steps.pop(_AGAIN, None)
    return list(steps)
