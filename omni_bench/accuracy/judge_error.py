"""The judge's own error: its WER on recordings whose text is known, heard together with the run's clips.

The reference recordings of a data set (``ref_audio``, ``ref_text``) are speech that was made, or
recorded, with care: what the judge gets wrong there is mostly its own doing, and the WER of a run
has to be read against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from omni_bench.accuracy.asr.clips import WHISPER_WINDOW_S, AsrClip, Transcript, clip_duration_s
from omni_bench.accuracy.recordings import speech_of
from omni_bench.accuracy.wer import score_corpus, score_utterance
from omni_bench.errors import AccuracyError, shorten
from omni_bench.records.prompt import Prompt

MAX_REFERENCES = 12
MAX_UNHEARD = 12
_SHOWN_CHARS = 160
NO_REFERENCES = "the data set has no reference recordings with their texts"
SWITCHED_OFF = "asr.own_error=false"


@dataclass(frozen=True)
class Reference:
    """A recording as a clip, and what is said in it."""

    clip: AsrClip
    text: str


@dataclass(frozen=True)
class OwnError:
    """Corpus rates (fractions) of the judge on ``utterances`` reference recordings with ``words`` words."""

    wer: float
    cer: float
    utterances: int
    words: int


@dataclass(frozen=True)
class References:
    """Recordings for the judge, and why others of the data set are none: "NAME: reason"."""

    heard: tuple[Reference, ...] = ()
    unheard: tuple[str, ...] = ()


def references_of(prompts: Iterable[Prompt]) -> References:
    """The first 12 distinct recordings of ``prompts`` that have a text, are speech of it and fit Whisper's window."""
    found: dict[Path, Reference] = {}
    unheard: dict[Path, str] = {}
    for prompt in prompts:
        path = prompt.ref_audio
        if path is None or not prompt.ref_text or path in found or path in unheard:
            continue
        # The rate is that of the file's header; what is raw has none, and is none of the judge's.
        clip = AsrClip(f"reference/{len(found)}/{path.name}", path, 24_000, prompt.language)
        problem = _problem(clip, path, prompt.ref_text)
        if problem is None:
            found[path] = Reference(clip, prompt.ref_text)
        else:
            unheard[path] = f"{path.name}: {problem}"
        if len(found) == MAX_REFERENCES or len(unheard) == MAX_UNHEARD:
            break
    return References(tuple(found.values()), tuple(unheard.values()))


def own_error(references: Sequence[Reference], transcripts: Sequence[Transcript], language: str) -> OwnError | None:
    """The rates over ``references`` and what was heard of each, in the same order; None if no word can be compared."""
    scores = [
        score_utterance(reference.clip.request_id, reference.text, heard.text, reference.clip.language or language)
        for reference, heard in zip(references, transcripts, strict=True)
    ]
    corpus = score_corpus("", scores)
    if corpus.wer is None or corpus.cer is None:
        return None
    return OwnError(corpus.wer, corpus.cer, corpus.utterances, corpus.words)


def own_error_json(error: OwnError | None, *, wanted: bool, unheard: Sequence[str] = ()) -> dict[str, Any]:
    """``own_wer``, its reason (None where there is a figure) and ``unheard_references`` of provenance.judge."""
    told = {"unheard_references": list(unheard)}
    if error is not None:
        return {"own_wer": asdict(error), "own_wer_reason": None, **told}
    lacking = NO_REFERENCES if not unheard else f"no reference recording can be heard; {unheard[0]}"
    return {"own_wer": None, "own_wer_reason": lacking if wanted else SWITCHED_OFF, **told}


def _problem(clip: AsrClip, path: Path, text: str) -> str | None:
    if path.suffix.lower() == ".pcm":
        return "raw samples, of no known rate"
    try:
        duration_s = clip_duration_s(clip)
        if duration_s > WHISPER_WINDOW_S:
            return f"{duration_s:.1f} s, at most {WHISPER_WINDOW_S:.0f} s are heard"
        speech_of(path, text, clip.language or "en")
    except AccuracyError as error:
        return shorten(str(error).partition(f"{path}: ")[2] or str(error), _SHOWN_CHARS)
    return None
