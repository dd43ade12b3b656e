"""A voice as 256 numbers: Resemblyzer's encoder, whose weights its package brings.

The network is the speaker encoder of Wan et al. 2018, "Generalized end-to-end loss for speaker
verification" (three LSTM layers, one linear layer), as Resemblyzer 0.1.4 (Apache-2.0) trained
it: 40 mel bands of power, windows of 25 ms every 10 ms, pieces of 1.6 s. Only the weights of the
package are used, and they are known by their SHA-256; its code needs a module that newer setuptools
no longer bring.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import numpy as np
import torch
from torch import nn

from omni_bench.accuracy.asr.clips import WHISPER_RATE_HZ
from omni_bench.accuracy.asr.weights.files import verify_sha256
from omni_bench.accuracy.asr.weights.packages import locate_file
from omni_bench.accuracy.voices.similarity import unit
from omni_bench.errors import AccuracyError
from reference_impl.model.speaker_encoder import mel_filters

RATE_HZ = WHISPER_RATE_HZ
PACKAGE, FILE_NAME = "resemblyzer", "pretrained.pt"
SHA256 = "39373b86598fa3da9fcddee6142382efe09777e8d37dc9c0561f41f0070f134e"
INSTALL = "pip install --no-deps resemblyzer==0.1.4"

MEL_BANDS, FFT_SAMPLES, HOP_SAMPLES = 40, 400, 160
HIDDEN, LAYERS = 256, 3
PIECE_S, PIECE_STEP_S = 1.6, 0.8
MIN_PIECE_S = 0.5
MIN_LEVEL_DBFS = -30.0
"""Quieter speech is raised to this level, as in the training of the encoder: its mel bands are not logarithms."""

_BATCH = 64


class SpeakerEncoder(nn.Module):
    """Embeds speech at 16 kHz. Build it by :func:`load_speaker_encoder`."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(MEL_BANDS, HIDDEN, LAYERS, batch_first=True)
        self.linear = nn.Linear(HIDDEN, HIDDEN)
        self.register_buffer("filters", mel_filters(MEL_BANDS, FFT_SAMPLES, RATE_HZ), persistent=False)
        self.register_buffer("window", torch.hann_window(FFT_SAMPLES), persistent=False)

    def forward(self, mels: torch.Tensor) -> torch.Tensor:
        """[batch, frames, bands] -> unit vectors [batch, 256] without negative numbers."""
        _, (hidden, _) = self.lstm(mels)
        return nn.functional.normalize(torch.relu(self.linear(hidden[-1])), dim=1)

    @torch.inference_mode()
    def embed(self, speech: Sequence[np.ndarray]) -> list[np.ndarray | None]:
        """One unit vector of 256 numbers for each piece of speech (float32 at 16 kHz, any length).

        A long piece is the mean of its overlapping windows of 1.6 s. None for less than half a
        second, and for digital silence.
        """
        windows: list[np.ndarray] = []
        owners: list[int] = []
        for index, samples in enumerate(speech):
            if samples.size < MIN_PIECE_S * RATE_HZ or not np.any(samples):
                continue
            for piece in pieces_of(at_least_level(samples)):
                windows.append(piece)
                owners.append(index)
        sums = np.zeros((len(speech), HIDDEN), np.float64)
        by_length: dict[int, list[int]] = {}
        for number, piece in enumerate(windows):
            by_length.setdefault(piece.size, []).append(number)
        for numbers in by_length.values():
            for start in range(0, len(numbers), _BATCH):
                batch = numbers[start : start + _BATCH]
                mels = self._mels(torch.from_numpy(np.stack([windows[number] for number in batch])))
                for number, vector in zip(batch, self(mels).numpy(), strict=True):
                    sums[owners[number]] += vector
        return [unit(total) for total in sums]

    def _mels(self, samples: torch.Tensor) -> torch.Tensor:
        """[batch, samples] -> power in 40 mel bands, [batch, frames, bands]."""
        spectrum = torch.stft(
            samples, FFT_SAMPLES, HOP_SAMPLES, window=self.window, center=True, pad_mode="constant", return_complex=True
        )
        return (self.filters @ spectrum.abs().square()).transpose(1, 2)


def at_least_level(samples: np.ndarray) -> np.ndarray:
    """``samples`` amplified to :data:`MIN_LEVEL_DBFS`, unchanged if they are as loud or louder."""
    rms = float(np.sqrt(np.mean(np.square(samples, dtype=np.float64))))
    wanted = 10 ** (MIN_LEVEL_DBFS / 20)
    return samples if rms >= wanted else (samples * (wanted / rms)).astype(np.float32)


def pieces_of(samples: np.ndarray) -> list[np.ndarray]:
    """Overlapping pieces of 1.6 s, the last one aligned with the end; one short piece if there is no more."""
    size, step = round(PIECE_S * RATE_HZ), round(PIECE_STEP_S * RATE_HZ)
    if samples.size <= size:
        return [samples]
    starts = [*range(0, samples.size - size, step), samples.size - size]
    return [samples[start : start + size] for start in starts]


def find_encoder_weights() -> Path | None:
    """The file of weights in the installed package, None without the package. Its hash is not checked here."""
    found = locate_file(PACKAGE, FILE_NAME)
    return None if found is None else found[0]


def why_no_encoder() -> str | None:
    """One line for people if there is no encoder here, None if there is."""
    if find_encoder_weights() is not None:
        return None
    return f"the weights of the speaker encoder are not here: {INSTALL}"


def describe_encoder() -> str:
    """Name and version for provenance. Raises AccuracyError if the package is not installed."""
    try:
        return f"{PACKAGE} {metadata.version(PACKAGE)}"
    except metadata.PackageNotFoundError:
        raise AccuracyError(f"speaker similarity: {why_no_encoder()}") from None


def load_speaker_encoder(path: Path | None = None) -> SpeakerEncoder:
    """The encoder on the CPU, in eval mode, with the package's weights (or those in ``path``, unchecked).

    Raises AccuracyError if the package is not installed, or its file is another one.
    """
    source = path or find_encoder_weights()
    if source is None:
        raise AccuracyError(f"speaker similarity: {why_no_encoder()}")
    if path is None:
        verify_sha256([source], SHA256, f"Reinstall it: {INSTALL}")
    encoder = SpeakerEncoder()
    try:
        state = torch.load(source, map_location="cpu", weights_only=True)["model_state"]
        # the two numbers of the training loss are no part of the network
        encoder.load_state_dict({name: value for name, value in state.items() if not name.startswith("similarity_")})
    except Exception as error:  # torch answers a file that is no checkpoint with any error at all
        raise AccuracyError(f"{source} does not hold the speaker encoder's weights: {error}") from error
    return encoder.eval()
