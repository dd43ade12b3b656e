"""Word error rate of a checkpoint on the evaluation set, per voice and kind of sentence, and what its sound shows.

    python benchmarks/tiny_voice_wer.py --checkpoint FOLDER --out evaluation.json [--voices heart,heart_low]
        [--temperature 0.7] [--predictor-temperature 0.7] [--asr base] [--set FOLDER] [--limit N]

Speaks every sentence with the engine, has it judged by the same judge as ``omni-bench run``,
and measures the silence before the first sound and tones that stand out of their neighbourhood.
``--teacher`` judges the teacher's own reading instead: the bound, and a check of the sentences.
"""

from __future__ import annotations

import argparse
import json
import threading
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from omni_bench.accuracy.asr.clips import AsrClip
from omni_bench.accuracy.asr.pool import transcribe
from omni_bench.accuracy.wer import CorpusScore, UtteranceScore, score_corpus, score_utterance
from omni_bench.datasets.seed_tts import parse_meta
from omni_bench.errors import DatasetError
from omni_bench.records.config import AsrConfig
from reference_impl.build import build_engine
from reference_impl.engine_api import AudioChunk, Event, Failed, Finished, SpeechRequest
from reference_impl.settings import ServerSettings
from reference_impl.training.teacher import AUDIBLE, SAMPLE_RATE_HZ

EVALUATION_SET = Path(__file__).parents[1] / "reference_impl" / "training" / "evaluation_set"
TONE_HZ, TONE_FFT, NEAR_HZ, AROUND_HZ = 8000, 4096, 20, (60, 300)


@dataclass(frozen=True)
class Spoken:
    """One sentence as spoken: int16 samples and how it ended (``stop``, ``length``, ``failed``)."""

    id: str
    text: str
    samples: np.ndarray
    reason: str


def read_sentences(folder: Path, limit: int | None = None) -> list[tuple[str, str]]:
    """(id, text) of a seed-tts style folder's ``en/meta.lst``. Raises DatasetError if it is missing."""
    path = folder / "en" / "meta.lst"
    if not path.is_file():
        raise DatasetError(f"{path}: no such file")
    return [(row.id, row.text) for row in parse_meta(path.read_bytes(), str(path))][:limit]


def speak(settings: ServerSettings, sentences: list[tuple[str, str]], voice: str) -> list[Spoken]:
    """All sentences with one voice, in their order; seeds are their numbers."""
    engine = build_engine(settings)
    lock, done = threading.Lock(), threading.Event()
    parts: dict[int, list[bytes]] = {i: [] for i in range(len(sentences))}
    reasons: dict[int, str] = {}

    def listener(number: int):
        def on_event(event: Event) -> None:
            if isinstance(event, AudioChunk):
                parts[number].append(event.pcm)
                return
            with lock:
                reasons[number] = event.reason if isinstance(event, Finished) else "failed"
                if len(reasons) == len(sentences) or isinstance(event, Failed):
                    done.set()

        return on_event

    try:
        for number, (name, text) in enumerate(sentences):
            engine.submit(SpeechRequest(name, text, voice, seed=number), listener(number))
        done.wait()
    finally:
        engine.stop()
    return [
        Spoken(name, text, np.frombuffer(b"".join(parts[i]), "<i2"), reasons.get(i, "failed"))
        for i, (name, text) in enumerate(sentences)
    ]


def speak_as_teacher(sentences: list[tuple[str, str]], model: Path, voice: int) -> list[Spoken]:
    """All sentences as the training audio has them."""
    from hibari import Hibari

    from reference_impl.prompt.text.spoken import spoken_form
    from reference_impl.training.teacher import Teacher, prepare_teacher

    if not model.exists():
        prepare_teacher(model)
    front, teacher = Hibari(), Teacher(model)
    spoken = []
    for number, (name, text) in enumerate(sentences):
        phonemes = front.ids(" ".join(front.phonemize(spoken_form(text))))
        utterance = teacher.speak(np.asarray(phonemes), voice, seed=number)
        samples = utterance.samples if utterance else np.zeros(0, np.int16)
        spoken.append(Spoken(name, text, samples, "stop" if utterance else "failed"))
    return spoken


def lead_ms(samples: np.ndarray) -> float | None:
    """Milliseconds before the first audible sample of int16 samples, or None for silence."""
    audible = np.nonzero(np.abs(samples.astype(np.int32)) > AUDIBLE * 32767)[0]
    return 1000 * float(audible[0]) / SAMPLE_RATE_HZ if len(audible) else None


def tone_db(spoken: list[Spoken]) -> float | None:
    """How far the power at 8 kHz stands above that of its neighbourhood, over all sentences, in dB."""
    from scipy.signal import welch

    total = np.zeros(TONE_FFT // 2 + 1)
    for item in spoken:
        if len(item.samples) >= TONE_FFT:
            frequency, power = welch(item.samples / 32768, SAMPLE_RATE_HZ, nperseg=TONE_FFT)
            total += power * len(item.samples)
    if not total.any():
        return None
    distance = np.abs(frequency - TONE_HZ)
    around = (distance > AROUND_HZ[0]) & (distance < AROUND_HZ[1])
    return float(10 * np.log10(total[distance < NEAR_HZ].max() / np.median(total[around])))


def judge(spoken: list[Spoken], asr: AsrConfig) -> list[UtteranceScore]:
    """Scores in the order of ``spoken``; what failed or was cut off counts as wholly wrong."""
    clips = [AsrClip(item.id, item.samples, SAMPLE_RATE_HZ) for item in spoken]
    transcripts = transcribe(clips, asr, "en")
    return [
        score_utterance(item.id, item.text, heard.text, "en", None if item.reason == "stop" else item.reason)
        for item, heard in zip(spoken, transcripts, strict=True)
    ]


def summarise(name: str, spoken: list[Spoken], scores: list[UtteranceScore], asr_name: str) -> dict[str, object]:
    """Rates over all sentences and per kind (the id up to its number), sound measurements, and every error."""
    kinds: dict[str, list[UtteranceScore]] = {}
    for score in scores:
        kinds.setdefault(score.request_id.rsplit("_", 1)[0], []).append(score)
    leads = [x for x in (lead_ms(item.samples) for item in spoken) if x is not None]
    reasons = [item.reason for item in spoken]
    return {
        "voice": name,
        "corpus": asdict(score_corpus(asr_name, scores)),
        "kinds": {kind: _short(score_corpus(asr_name, group)) for kind, group in kinds.items()},
        "reasons": {reason: reasons.count(reason) for reason in sorted(set(reasons))},
        "seconds": sum(len(item.samples) for item in spoken) / SAMPLE_RATE_HZ,
        "lead_ms_median": float(np.median(leads)) if leads else None,
        "lead_ms_p5": float(np.percentile(leads, 5)) if leads else None,
        "tone_8khz_db": tone_db(spoken),
        "errors": [
            {"id": s.request_id, "reference": s.reference_normal, "heard": s.hypothesis_normal, "edits": s.edits}
            for s in scores
            if s.edits
        ],
    }


def _short(score: CorpusScore) -> dict[str, object]:
    return {
        "wer": score.wer,
        "cer": score.cer,
        "utterances": score.utterances,
        "words": score.words,
        "edits": score.edits,
    }


def main() -> None:
    """Command line; see the module docstring."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkpoint", default="bundled")
    parser.add_argument("--teacher", type=Path, default=None, help="judge the teacher instead; its model file")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--voices", default="heart,heart_low")
    parser.add_argument("--temperature", type=float, default=None, help="default: the checkpoint's own")
    parser.add_argument("--predictor-temperature", type=float, default=None)
    parser.add_argument("--asr", default="base")
    parser.add_argument("--set", type=Path, default=EVALUATION_SET)
    parser.add_argument("--limit", type=int, default=None)
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--workers", type=int, default=None, help="processes of the judge")
    args = parser.parse_args()
    sentences = read_sentences(args.set, args.limit)
    asr = AsrConfig(kind="whisper", model=args.asr, workers=args.workers)
    sampling = {"temperature": args.temperature, "predictor_temperature": args.predictor_temperature}
    results = []
    for number, voice in enumerate(args.voices.split(",")):
        if args.teacher:
            spoken = speak_as_teacher(sentences, args.teacher, number)
        else:
            settings = ServerSettings(
                checkpoint=args.checkpoint,
                device=args.device,
                max_batch=args.rows,
                max_queue=len(sentences),
                chunk_frames=256,
                first_chunk_frames=256,
                **{name: value for name, value in sampling.items() if value is not None},
            )
            spoken = speak(settings, sentences, voice)
        result = summarise(voice, spoken, judge(spoken, asr), args.asr)
        results.append({**result, **sampling})
        shown = {k: v for k, v in result.items() if k != "errors"}
        print(json.dumps(shown, indent=1))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
