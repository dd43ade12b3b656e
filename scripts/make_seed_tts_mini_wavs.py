"""Speak the reference recordings of the bundled data set with the bundled voice.

Every different recording that ``meta.lst`` names is spoken once from its reference text and
written as 24 kHz, 16 bit, mono WAV beside it. Run again after the bundled voice has changed:

    python scripts/make_seed_tts_mini_wavs.py

The recordings are reproducible: one request at a time in the deterministic mode, with the
recording's number as its seed. They stand in for the speech of a person, so that the
request bodies of a cloning server have the right size and form; they are not a judge's input.
"""

from __future__ import annotations

import argparse
import queue
import sys
from pathlib import Path

import numpy as np
import soundfile

from omni_bench.datasets.bundled import bundled_root
from omni_bench.datasets.seed_tts import META_NAME, parse_meta
from omni_bench.errors import DatasetError, EngineError, OmniBenchError
from reference_impl.build import build_engine
from reference_impl.engine_api import AudioChunk, EngineLike, Event, Failed, Finished, SpeechRequest
from reference_impl.settings import ServerSettings

MIN_S, MAX_S = 1.0, 12.0
SILENT_BELOW = 0.01  # peak, of full scale
EVENT_TIMEOUT_S = 120.0


def recordings_of(meta: Path) -> dict[str, str]:
    """The reference text of each recording. Raises DatasetError if one recording has two texts."""
    texts: dict[str, str] = {}
    for row in parse_meta(meta.read_bytes(), str(meta)):
        if row.wav is None or row.ref_text is None:
            continue
        if Path(row.wav).is_absolute() or ".." in Path(row.wav).parts:
            raise DatasetError(f"{meta}, line {row.line}: {row.wav} leaves the data folder")
        if texts.setdefault(row.wav, row.ref_text) != row.ref_text:
            raise DatasetError(f"{meta}, line {row.line}: {row.wav} has two different reference texts")
    return texts


def speak(engine: EngineLike, text: str, voice: str, seed: int) -> np.ndarray:
    """The int16 samples of one utterance. Raises EngineError if it fails, is cut off, or is not speech-like."""
    events: queue.Queue[Event] = queue.Queue()
    engine.submit(SpeechRequest(f"reference-{seed}", text, voice, seed), events.put)
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
            if event.reason != "stop":
                raise EngineError(f"{text!r}: ended by {event.reason!r}, not by the end token")
            break
    samples = np.frombuffer(bytes(pcm), dtype="<i2")
    duration_s = samples.size / engine.sample_rate_hz
    if not MIN_S <= duration_s <= MAX_S:
        raise EngineError(f"{text!r}: {duration_s:.2f} s of audio; expected {MIN_S} to {MAX_S} s")
    if np.abs(samples.astype(np.int32)).max() < SILENT_BELOW * 32768:
        raise EngineError(f"{text!r}: the audio is silent")
    return samples


def main() -> int:
    """Write all recordings of one bundled set; 0 on success."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="seed_tts_mini", help="name of the bundled data set")
    parser.add_argument("--locale", default="en")
    parser.add_argument("--voice", help="voice of the bundled checkpoint (default: its first)")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or auto; bytes differ between devices")
    arguments = parser.parse_args()
    folder = bundled_root() / arguments.dataset / arguments.locale
    try:
        texts = recordings_of(folder / META_NAME)
        settings = ServerSettings(device=arguments.device, max_batch=1, deterministic=True)
        engine = build_engine(settings)
        try:
            voice = arguments.voice or engine.voices[0]
            for seed, (name, text) in enumerate(sorted(texts.items())):
                samples = speak(engine, text, voice, seed)
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                soundfile.write(path, samples, engine.sample_rate_hz, subtype="PCM_16", format="WAV")
                print(f"{name}  {samples.size / engine.sample_rate_hz:5.2f} s  {text}")
        finally:
            engine.stop()
    except (OmniBenchError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{len(texts)} recordings in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
