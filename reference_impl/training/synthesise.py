"""Teacher audio for the whole corpus, by many processes, within a time budget.

Chunk c holds sentences c × 128 onwards: ``cNNNN.npy`` (int16 [frames, 1920], memory-mappable)
and ``cNNNN.npz`` (frames, labels, sentence indices, voices). A finished chunk is never made
again, so an interrupted run goes on where it stopped; chunk contents depend on nothing but
the corpus.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from omni_bench.errors import DatasetError
from reference_impl.training.corpus import Corpus, load_corpus
from reference_impl.training.teacher import FRAME_SAMPLES, Teacher, prepare_teacher, voice_of

CHUNK_SENTENCES = 128
MODEL_NAME = "teacher.onnx"


@dataclass(frozen=True)
class ChunkInfo:
    """Of each utterance of a chunk: frames, sentence index, voice; and ``labels`` uint8 [all frames, 2]."""

    frames: np.ndarray
    sentences: np.ndarray
    voices: np.ndarray
    labels: np.ndarray


def chunk_name(number: int) -> str:
    """``c`` and four digits."""
    return f"c{number:04d}"


def chunk_count(corpus: Corpus) -> int:
    """Chunks of a whole corpus."""
    return -(-len(corpus) // CHUNK_SENTENCES)


def finished_chunks(folder: Path) -> list[str]:
    """Names of the chunks whose audio is complete, in order."""
    return sorted(path.stem for path in folder.glob("c[0-9]*.npy"))


def read_info(folder: Path, name: str) -> ChunkInfo:
    """A chunk's table. Raises DatasetError if it is unreadable."""
    try:
        with np.load(folder / f"{name}.npz", allow_pickle=False) as z:
            return ChunkInfo(z["frames"], z["sentences"], z["voices"], z["labels"])
    except (OSError, KeyError, ValueError) as error:
        raise DatasetError(f"{folder / name}.npz: not a chunk table: {error}") from None


def read_audio(folder: Path, name: str) -> np.ndarray:
    """A chunk's samples, int16 [frames, 1920], memory-mapped."""
    return np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)


def make_chunk(corpus: Corpus, teacher: Teacher, number: int, folder: Path) -> int:
    """Synthesise and write one chunk; returns its frames. The audio file appears last, whole."""
    utterances, sentences = [], []
    first = number * CHUNK_SENTENCES
    for index in range(first, min(first + CHUNK_SENTENCES, len(corpus))):
        utterance = teacher.speak(corpus.phoneme_ids(index), voice_of(index), seed=index)
        if utterance:
            utterances.append(utterance)
            sentences.append(index)
    if not utterances:
        raise DatasetError(f"chunk {number}: the teacher spoke none of its sentences")
    name = chunk_name(number)
    np.savez(
        folder / f"{name}.npz",
        frames=np.array([u.frames for u in utterances], np.int32),
        sentences=np.array(sentences, np.int32),
        voices=np.array([u.voice for u in utterances], np.uint8),
        labels=np.concatenate([u.labels for u in utterances]),
    )
    samples = np.concatenate([u.samples for u in utterances]).reshape(-1, FRAME_SAMPLES)
    partial = folder / f"{name}.partial"
    with partial.open("wb") as handle:
        np.save(handle, samples)
    partial.replace(folder / f"{name}.npy")
    return len(samples)


def make_chunks(corpus_path: Path, folder: Path, worker: int, workers: int, seconds: float, last: int) -> None:
    """What one process does: every ``workers``-th chunk below ``last``, until the time is up."""
    corpus, teacher = load_corpus(corpus_path), Teacher(folder / MODEL_NAME)
    deadline = time.monotonic() + seconds
    for number in range(worker, min(last, chunk_count(corpus)), workers):
        if time.monotonic() >= deadline:
            return
        if not (folder / f"{chunk_name(number)}.npy").exists():
            make_chunk(corpus, teacher, number, folder)


def start_workers(
    corpus: Path, folder: Path, workers: int, seconds: float, last: int = 1 << 30
) -> list[subprocess.Popen]:
    """Start the processes and return them; each ends by itself after its chunks or when the time is up.

    They are commands of their own, so that they do not load what the caller has loaded.
    ``last``: only chunks below this number are made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / MODEL_NAME).exists():
        prepare_teacher(folder / MODEL_NAME)
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    command = [sys.executable, "-m", __spec__.name, str(corpus), str(folder)]
    last_words = [str(workers), str(seconds), str(last)]
    return [
        subprocess.Popen([*command, str(worker), *last_words], env={**os.environ, **one_thread})
        for worker in range(workers)
    ]


def hours(folder: Path) -> float:
    """Hours of audio in finished chunks, from file sizes."""
    total = sum(path.stat().st_size for path in folder.glob("c[0-9]*.npy"))
    return total / 2 / 24_000 / 3600


if __name__ == "__main__":
    corpus, folder, worker, workers, seconds, last = sys.argv[1:]
    make_chunks(Path(corpus), Path(folder), int(worker), int(workers), float(seconds), int(last))
