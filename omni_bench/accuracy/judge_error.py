"""The judge's own error: its WER on recordings whose text is known, heard together with the run's clips.

The reference recordings of a data set (``ref_audio``, ``ref_text``) are speech that was made, or
recorded, with care: what the judge gets wrong there is mostly its own doing, and the WER of a run
has to be read against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from omni_bench.accuracy.asr.clips import WHISPER_WINDOW_S, AsrClip, Transcript, clip_duration_s
from omni_bench.accuracy.wer import score_corpus, score_utterance
from omni_bench.errors import AccuracyError
from omni_bench.records.prompt import Prompt

MAX_REFERENCES = 12
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


def references_of(prompts: Iterable[Prompt]) -> list[Reference]:
    """The first 12 distinct recordings of ``prompts`` that have a text, can be read and fit Whisper's window."""
    found: dict[Any, Reference] = {}
    for prompt in prompts:
        if prompt.ref_audio is None or not prompt.ref_text or prompt.ref_audio in found:
            continue
        # The header of a WAV knows the rate; other formats are none of the judge's.
        clip = AsrClip(f"reference/{len(found)}/{prompt.ref_audio.name}", prompt.ref_audio, 24_000, prompt.language)
        if prompt.ref_audio.suffix.lower() == ".wav" and _fits(clip):
            found[prompt.ref_audio] = Reference(clip, prompt.ref_text)
        if len(found) == MAX_REFERENCES:
            break
    return list(found.values())


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


def own_error_json(error: OwnError | None, *, wanted: bool) -> dict[str, Any]:
    """``own_wer`` and ``own_wer_reason`` of provenance.judge; the reason is None where there is a figure."""
    if error is not None:
        return {"own_wer": asdict(error), "own_wer_reason": None}
    return {"own_wer": None, "own_wer_reason": NO_REFERENCES if wanted else SWITCHED_OFF}


def _fits(clip: AsrClip) -> bool:
    try:
        return 0 < clip_duration_s(clip) <= WHISPER_WINDOW_S
    except AccuracyError:
        return False
