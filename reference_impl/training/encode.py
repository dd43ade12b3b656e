"""Codes of the teacher audio: every finished chunk through the trained encoder.

``cNNNN.codes`` files (NumPy, int16 [frames, 16]) appear beside the chunk tables; existing ones
are kept.
"""

from __future__ import annotations

import math
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

from omni_bench.errors import CheckpointError
from reference_impl.loading.released_config import read_config
from reference_impl.training.codec_model import to_wave
from reference_impl.training.codec_trainer import Codec, autocast
from reference_impl.training.state import load_state
from reference_impl.training.synthesise import finished_chunks, read_audio, read_info

READ_AHEAD = 4  # chunks read from disk while the device works
FRAMES_PER_CALL = 4096


def codes_path(folder: Path, name: str) -> Path:
    """Where a chunk's codes are."""
    return folder / f"{name}.codes"


def load_codec(state: Path, base: Path, device: torch.device) -> Codec:
    """The trained codec. Raises CheckpointError if its training has not begun."""
    codec = Codec(read_config(base)).to(device)
    saved = load_state(state / "codec.pt", device)
    if saved is None:
        raise CheckpointError(f"{state / 'codec.pt'}: no such file; train the codec first")
    codec.load_state_dict(saved["codec"])
    return codec.requires_grad_(False).eval()


@torch.no_grad()
def encode_chunk(codec: Codec, samples: np.ndarray, frames: np.ndarray, device: torch.device) -> np.ndarray:
    """samples int16 [all frames, 1920] of utterances of ``frames`` -> codes int16 [all frames, 16].

    Utterances of similar length are encoded together, padded with silence.
    """
    starts = np.cumsum(frames) - frames
    codes = np.zeros((len(samples), codec.code2wav.config.num_code_groups), np.int16)
    order = np.argsort(frames, kind="stable")
    first = 0
    while first < len(order):
        longest = int(frames[order[min(first + 31, len(order) - 1)]])
        count = max(1, FRAMES_PER_CALL // max(1, longest))
        part = order[first : first + count]
        longest = int(frames[part].max())
        padded = np.zeros((len(part), longest, samples.shape[1]), np.int16)
        for row, utterance in enumerate(part):
            padded[row, : frames[utterance]] = samples[starts[utterance] : starts[utterance] + frames[utterance]]
        with autocast(device):
            latent = codec.encoder(to_wave(torch.from_numpy(padded).to(device)))
        found = codec.quantiser(latent.float()).codes.transpose(1, 2).to(torch.int16).cpu().numpy()
        for row, utterance in enumerate(part):
            codes[starts[utterance] : starts[utterance] + frames[utterance]] = found[row, : frames[utterance]]
        first += count
    return codes


def encode_new(codec: Codec, folder: Path, device: torch.device, deadline: float = math.inf) -> int:
    """Encode finished chunks that have no codes yet, until the ``deadline`` (``time.monotonic``); returns how many."""
    names = [n for n in finished_chunks(folder) if not codes_path(folder, n).exists()]

    def read(name: str) -> tuple[str, np.ndarray, np.ndarray]:
        return name, np.array(read_audio(folder, name)), read_info(folder, name).frames

    count = 0
    with ThreadPoolExecutor(READ_AHEAD) as readers:
        for block in range(0, len(names), READ_AHEAD):
            if time.monotonic() >= deadline:
                break
            for name, samples, frames in readers.map(read, names[block : block + READ_AHEAD]):
                partial = folder / f"{name}.codes.partial"
                with partial.open("wb") as handle:
                    np.save(handle, encode_chunk(codec, samples, frames, device))
                partial.replace(codes_path(folder, name))
                count += 1
    return count
