"""How well cross-talk is found: words of one recording spliced into another, heard by the judge, attributed.

    python -m benchmarks.cross_talk                            speaks its own recordings with the bundled voice
    python -m benchmarks.cross_talk --run reports/runs/RUN     takes those of a run made with output.save_audio=all
    python -m benchmarks.cross_talk --out reports/cross_talk.md

The recordings are split into two halves with different prompts: the first chooses the threshold,
the second gives the figures. Everything random follows --seed; the same recordings and the same judge
give the same table.
"""

from __future__ import annotations

import argparse
import queue
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

from benchmarks.cross_talk.cases import KINDS, Case, Recording, splice
from benchmarks.cross_talk.table import Evaluation, Outcome, render
from omni_bench.accuracy.asr.clips import AsrClip
from omni_bench.accuracy.asr.pool import transcribe
from omni_bench.accuracy.cross_talk.check import THRESHOLD, locate, score_pairs
from omni_bench.accuracy.cross_talk.null import describe_null
from omni_bench.accuracy.cross_talk.pairs import IN_FLIGHT, TARGET, Request, SourceText
from omni_bench.accuracy.cross_talk.score import Words, WordWeights, weigh_words
from omni_bench.accuracy.written.normalise import normalise_reference, normalise_transcript
from omni_bench.datasets.bundled import bundled_root
from omni_bench.datasets.seed_tts import META_NAME, parse_meta
from omni_bench.errors import DatasetError, EngineError, OmniBenchError
from omni_bench.records.config import AsrConfig
from omni_bench.records.run_folder import RunFolder
from reference_impl.build import build_engine
from reference_impl.engine_api import AudioChunk, Event, Failed, Finished, SpeechRequest
from reference_impl.settings import ServerSettings

DATASET, LANGUAGE = "seed_tts_mini", "en"
EVENT_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Material:
    """Clean recordings at ``rate_hz``, and what the judge heard in them."""

    recordings: list[Recording]
    heard: dict[str, Words]
    rate_hz: int


def main() -> int:
    """Make, hear and attribute the cases, print the table and write it if asked to; 0 on success."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cross_talk",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--run", type=Path, help="run folder with all recordings (default: speak them)")
    parser.add_argument("--recordings", type=int, default=128, help="recordings in all, both halves (default: 128)")
    parser.add_argument("--cases", type=int, default=32, help="cases a kind and half (default: 32)")
    parser.add_argument("--in-flight", type=int, default=16, help="requests in flight, the victim one of them")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--judge", default="tiny.en", help="asr.model (default: tiny.en)")
    parser.add_argument("--device", default="cpu", help="of the voice and the judge: cpu, cuda or auto")
    parser.add_argument("--out", type=Path, help="markdown file to write")
    arguments = parser.parse_args()
    if arguments.recordings < 2 * arguments.in_flight or arguments.cases < 1 or arguments.in_flight < 2:
        parser.error("--recordings must be at least twice --in-flight, --in-flight at least 2, --cases at least 1")
    try:
        texts = dataset_texts()
        if arguments.run is not None:
            recordings, rate_hz = from_run(arguments.run, arguments.recordings)
        else:
            recordings, rate_hz = spoken(texts, arguments.recordings, arguments.seed, arguments.device)
        asr = AsrConfig(kind="whisper", model=arguments.judge, device=arguments.device)
        heard = hear([(one.request_id, one.samples) for one in recordings], rate_hz, asr)
        material = Material(recordings, heard, rate_hz)
        every_text = sorted({words_of(text) for text in [*texts, *(one.text for one in recordings)]})
        weights = weigh_words(every_text)
        halves = [
            evaluate(half, material, every_text, weights, asr, arguments.cases, arguments.in_flight, seed)
            for seed, half in enumerate(split(recordings, arguments.seed), start=2 * arguments.seed)
        ]
    except (OmniBenchError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    table = render(
        *halves,
        judge=arguments.judge,
        origin="a run" if arguments.run else f"the bundled voice (deterministic, seeds from {arguments.seed})",
        options={
            "recordings": arguments.recordings,
            "cases": arguments.cases,
            "in-flight": arguments.in_flight,
            "seed": arguments.seed,
        },
    )
    print(table)
    if arguments.out is not None:
        arguments.out.write_text(table, encoding="utf-8")
    return 0


def dataset_texts() -> list[str]:
    """The sentences of the bundled English set, in its order."""
    meta = bundled_root() / DATASET / LANGUAGE / META_NAME
    return [row.text for row in parse_meta(meta.read_bytes(), str(meta))]


def from_run(path: Path, limit: int) -> tuple[list[Recording], int]:
    """The first ``limit`` recordings of a run, each text once, and their rate. Raises DatasetError, StoreError."""
    folder = RunFolder.open(path)
    recordings: dict[str, Recording] = {}
    rates = set()
    for record in folder.read_requests():
        if record.get("audio") and not record.get("faults") and record["text"] not in recordings:
            samples, rate_hz = soundfile.read(str(folder.path / record["audio"]), dtype="int16")
            recordings[record["text"]] = Recording(record["request_id"], record["text"], samples)
            rates.add(rate_hz)
    if len(recordings) < limit or len(rates) != 1:
        raise DatasetError(
            f"{folder.path} has {len(recordings)} recordings of different texts at {sorted(rates)} Hz; "
            f"{limit} at one rate are needed: make the run with output.save_audio=all, or lower --recordings"
        )
    return list(recordings.values())[:limit], rates.pop()


def spoken(texts: Sequence[str], count: int, seed: int, device: str) -> tuple[list[Recording], int]:
    """``count`` sentences of ``texts`` spoken by the bundled voice, and its rate. Raises EngineError, DatasetError."""
    if count > len(texts):
        raise DatasetError(f"--recordings {count}: the bundled set has {len(texts)} sentences")
    chosen = np.random.default_rng(seed).permutation(len(texts))[:count]
    engine = build_engine(ServerSettings(device=device, max_batch=1, deterministic=True))
    recordings = []
    try:
        for number, index in enumerate(chosen):
            events: queue.Queue[Event] = queue.Queue()
            request = SpeechRequest(f"spoken-{number:04d}", texts[index], engine.voices[0], seed + number)
            engine.submit(request, events.put)
            samples = collect(events, texts[index])
            recordings.append(Recording(request.request_id, texts[index], samples))
            progress(f"spoken {number + 1}/{count}")
        return recordings, engine.sample_rate_hz
    finally:
        engine.stop()


def collect(events: queue.Queue[Event], text: str) -> np.ndarray:
    """The int16 samples of one request. Raises EngineError."""
    pcm = bytearray()
    while True:
        try:
            event = events.get(timeout=EVENT_TIMEOUT_S)
        except queue.Empty:
            raise EngineError(f"{text!r}: nothing from the engine for {EVENT_TIMEOUT_S:.0f} s") from None
        if isinstance(event, AudioChunk):
            pcm += event.pcm
        elif isinstance(event, Failed):
            raise EngineError(f"{text!r}: {event.message}")
        elif isinstance(event, Finished):
            return np.frombuffer(bytes(pcm), dtype="<i2").astype(np.int16)


def hear(clips: Sequence[tuple[str, np.ndarray]], rate_hz: int, asr: AsrConfig) -> dict[str, Words]:
    """What the judge hears in each clip, as it is compared."""
    transcripts = transcribe(
        [AsrClip(name, samples, rate_hz) for name, samples in clips],
        asr,
        LANGUAGE,
        lambda done, total: progress(f"heard {done}/{total}"),
    )
    return {one.request_id: tuple(normalise_transcript(one.text, LANGUAGE).split()) for one in transcripts}


def split(recordings: Sequence[Recording], seed: int) -> tuple[list[Recording], list[Recording]]:
    """Two halves; as every recording has a text of its own, they share no prompt."""
    order = np.random.default_rng([seed, 1]).permutation(len(recordings))
    middle = len(order) // 2
    return [recordings[i] for i in sorted(order[:middle])], [recordings[i] for i in sorted(order[middle:])]


def evaluate(
    half: Sequence[Recording],
    material: Material,
    texts: Sequence[Words],
    weights: WordWeights,
    asr: AsrConfig,
    cases_a_kind: int,
    in_flight: int,
    seed: int,
) -> Evaluation:
    """All cases of one half, and its clean outputs against every text but their own."""
    rng = np.random.default_rng([seed, 2])
    cases = []
    for kind in KINDS:
        for number in range(cases_a_kind):
            victim, source = rng.choice(len(half), 2, replace=False)
            cases.append(splice(kind, half[victim], half[source], material.rate_hz, rng, first_words=number % 2 == 0))
    heard = hear([(str(i), case.samples) for i, case in enumerate(cases)], material.rate_hz, asr)
    by_id = {one.request_id: words_of(one.text) for one in half}
    outcomes, unrelated = [], []
    for number, case in enumerate(cases):
        outcome, others = attribute(case, heard[str(number)], by_id, texts, weights, in_flight, rng)
        outcomes.append(outcome)
        unrelated += others
    clean: list[float] = []
    for one in half:
        own = by_id[one.request_id]
        clean += score_pairs(material.heard[one.request_id], own, [text for text in texts if text != own], weights)
    return Evaluation(
        outcomes=tuple(outcomes),
        clean=tuple(clean),
        unrelated=tuple(unrelated),
        clean_outputs=len(half),
        decay=describe_null(unrelated, THRESHOLD).decay,
    )


def attribute(
    case: Case,
    heard: Words,
    texts_by_id: dict[str, Words],
    texts: Sequence[Words],
    weights: WordWeights,
    in_flight: int,
    rng: np.random.Generator,
) -> tuple[Outcome, list[float]]:
    """The outcome of one case among ``in_flight`` requests, and the scores of all texts that have no part in it."""
    own, spliced = texts_by_id[case.victim], texts_by_id[case.source]
    bystanders = [name for name in texts_by_id if name not in (case.victim, case.source)]
    names = [case.source, *rng.choice(bystanders, min(in_flight - 2, len(bystanders)), replace=False)]
    scores = score_pairs(heard, own, [texts_by_id[name] for name in names], weights)
    best = max(range(len(names)), key=scores.__getitem__)
    position = None
    if scores[best] > 0:
        victim = Request(case.victim, in_flight, 0, 1, own)
        source = SourceText(names[best], TARGET, IN_FLIGHT, texts_by_id[names[best]])
        position = locate(victim, heard, source, scores[best], weights).position
    others = [text for text in texts if text not in (own, spliced)]
    outcome = Outcome(
        kind=case.kind,
        first_words=case.first_words,
        spliced=case.words,
        heard=" ".join(heard),
        score=scores[0],
        best_is_source=best == 0,
        best_score=scores[best],
        position=position,
    )
    return outcome, score_pairs(heard, own, others, weights)


def words_of(text: str) -> Words:
    """A text as it is compared."""
    return tuple(normalise_reference(text, LANGUAGE).split())


def progress(message: str) -> None:
    """One line on standard error that is written over and over."""
    print(f"\r{message:<40}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
