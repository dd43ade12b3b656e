"""What checks.speaker_similarity catches: onsets in another voice, spliced into clips of the bundled voices.

    python benchmarks/speaker_similarity.py [--sentences 40] [--out reports/speaker_similarity.md]

Both bundled voices speak the same sentences. A case replaces the first part of a clip by as much
of another sentence, in the other voice (to be caught) or in the same one (which no comparison of
voices can catch). Every tenth utterance of a level is such a clip and the rest are clean, so that the
median is that of a level with a fault; each clip takes its turn. The anchor is the level's median
voice, or the bundled set's reference recordings (which are of the first voice).
The clean clips are the same in every turn, so that 9 in 360 means one clip that alarms in nine of ten turns.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from tabulate import tabulate

from omni_bench.accuracy.asr.clips import WHISPER_RATE_HZ, AsrClip, load_samples_16k
from omni_bench.accuracy.voices.encoder import describe_encoder, load_speaker_encoder
from omni_bench.accuracy.voices.similarity import VoicePrint, compare_level, voice_prints, without_outer_silence
from omni_bench.datasets.bundled import read_bundled
from omni_bench.errors import EngineError, OmniBenchError
from reference_impl.build import build_engine
from reference_impl.engine.engine import Engine
from reference_impl.engine_api import AudioChunk, Failed, SpeechRequest
from reference_impl.settings import ServerSettings

HEADERS = ("anchor", "voice of the rest", "onset", "length", "caught", "false alarms beside them")
LENGTHS_S = (0.4, 0.6, 0.8, 1.0, 1.3)
SHARE = 10
KEEP_S = 0.5  # at least this much of the clip's own voice stays
DATASET, LOCALE = "seed_tts_mini", "en"


def speak(engine: Engine, texts: Sequence[str], voice: str) -> list[np.ndarray]:
    """Samples at 16 kHz of every text, without silence at the ends. Raises EngineError."""
    pcm, failures, left = [bytearray() for _ in texts], [], threading.Semaphore(0)

    def listener(index: int):
        def on_event(event) -> None:
            if isinstance(event, AudioChunk):
                pcm[index] += event.pcm
                return
            if isinstance(event, Failed):
                failures.append(event.message)
            left.release()

        return on_event

    for index, text in enumerate(texts):
        engine.submit(SpeechRequest(f"{voice}-{index}", text, voice, seed=index), listener(index))
    for _ in texts:
        left.acquire()
    if failures:
        raise EngineError(f"{voice}: {failures[0]}")
    rate_hz = engine.sample_rate_hz
    clips = [AsrClip(f"{voice}-{index}", np.frombuffer(bytes(one), "<i2"), rate_hz) for index, one in enumerate(pcm)]
    return [without_outer_silence(load_samples_16k(clip)) for clip in clips]


def spliced(onset: np.ndarray, clip: np.ndarray, length_s: float) -> np.ndarray | None:
    """``clip`` with its first ``length_s`` seconds replaced by those of ``onset``; None if one is too short."""
    cut = round(length_s * WHISPER_RATE_HZ)
    if onset.size < cut or clip.size < cut + KEEP_S * WHISPER_RATE_HZ:
        return None
    return np.concatenate([onset[:cut], clip[cut:]])


def count_case(
    clean: Sequence[VoicePrint], faulty: Mapping[int, VoicePrint], references: Sequence[VoicePrint] | None
) -> tuple[int, int, int]:
    """Caught faulty utterances, false alarms, and clean utterances seen, over levels with every tenth clip faulty."""
    caught = alarms = seen = 0
    for turn in range(SHARE):
        chosen = {index for index in faulty if index % SHARE == turn}
        prints = {str(index): faulty[index] if index in chosen else one for index, one in enumerate(clean)}
        anchors = None
        if references is not None:
            anchors = {name: references[int(name) % len(references)] for name in prints}
        for name, similarity in compare_level(prints, anchors).items():
            if int(name) in chosen:
                caught += bool(similarity.outlier)
            else:
                alarms += bool(similarity.outlier)
                seen += 1
    return caught, alarms, seen


def measure(sentences: int) -> list[list[str]]:
    """The rows of the table. Raises OmniBenchError."""
    encoder = load_speaker_encoder()
    source = read_bundled(DATASET, LOCALE)
    prompts = [source.take(index) for index in range(min(sentences, len(source.ids)))]
    engine = build_engine(ServerSettings(device="cpu", max_batch=8, threads=1))
    try:
        voices = engine.voices
        spoken = {voice: speak(engine, [prompt.text for prompt in prompts], voice) for voice in voices}
    finally:
        engine.stop()

    def prints_of(samples: Sequence[np.ndarray]) -> list[VoicePrint]:
        clips = [AsrClip(str(i), (one * 32767).astype(np.int16), WHISPER_RATE_HZ) for i, one in enumerate(samples)]
        return voice_prints(encoder, clips)

    recordings = sorted({prompt.ref_audio for prompt in prompts if prompt.ref_audio is not None})
    references = voice_prints(encoder, [AsrClip(path.name, path, WHISPER_RATE_HZ) for path in recordings])
    clean = {voice: prints_of(spoken[voice]) for voice in voices}
    rows = []
    for own in voices:
        for other in voices:
            for length_s in LENGTHS_S:
                made = splices(spoken[other], spoken[own], length_s)
                faulty = dict(zip(made, prints_of(list(made.values())), strict=True))
                anchors = [("median", None)] + ([("recording", references)] if own == voices[0] else [])
                for name, recorded in anchors:
                    caught, alarms, seen = count_case(clean[own], faulty, recorded)
                    onset = "same voice" if other == own else other
                    rows.append([name, own, onset, f"{length_s} s", f"{caught}/{len(faulty)}", f"{alarms}/{seen}"])
    return sorted(rows, key=lambda row: (row[0], row[2] == "same voice"))


def splices(onsets: Sequence[np.ndarray], clips: Sequence[np.ndarray], length_s: float) -> dict[int, np.ndarray]:
    """Every clip that is long enough with the onset of another sentence, by its index."""
    made = {}
    for index, clip in enumerate(clips):
        splice = spliced(onsets[(index + 7) % len(onsets)], clip, length_s)
        if splice is not None:
            made[index] = splice
    return made


def main() -> int:
    """Print the table, and write it with ``--out``; 0 on success."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=40, help="clips of each voice (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="write a markdown report here too")
    arguments = parser.parse_args()
    try:
        table = tabulate(measure(arguments.sentences), headers=HEADERS, tablefmt="pipe", disable_numparse=True)
        print(table)
        if arguments.out is not None:
            text = (__doc__ or "").partition("\n\n")
            about = text[2].partition("\n\n")[2].strip()
            arguments.out.write_text(
                f"# {text[0].strip()}\n\n"
                f"`python {' '.join(sys.argv)}`, with {describe_encoder()}, on a CPU.\n\n{about}\n\n{table}\n",
                encoding="utf-8",
            )
    except (OmniBenchError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
