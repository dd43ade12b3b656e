"""Hand-made CTranslate2 files and small Whisper models."""

import struct

import numpy as np
import pytest
import torch
from whisper.model import ModelDimensions, Whisper

TYPE_IDS = {"float32": 0, "int8": 1, "int16": 2, "int32": 3, "float16": 4}


def _string(text: str) -> bytes:
    data = text.encode() + b"\0"
    return struct.pack("<H", len(data)) + data


@pytest.fixture
def ct2_bytes():
    """Writes the bytes of a model.bin: ct2_bytes(variables, aliases, **fields to overwrite)."""

    def write(variables, aliases=(), *, version=6, spec_name="WhisperSpec", revision=3) -> bytes:
        parts = [struct.pack("<I", version), _string(spec_name), struct.pack("<II", revision, len(variables))]
        for name, array in variables.items():
            array = np.asarray(array)
            parts += [_string(name), struct.pack("<B", array.ndim), struct.pack(f"<{array.ndim}I", *array.shape)]
            parts += [struct.pack("<BI", TYPE_IDS[array.dtype.name], array.nbytes), array.tobytes()]
        parts.append(struct.pack("<I", len(aliases)))
        parts += [_string(alias) + _string(target) for alias, target in aliases]
        return b"".join(parts)

    return write


@pytest.fixture
def small_whisper() -> Whisper:
    """Random weights in Whisper's shape: English vocabulary, full audio context, 64 channels."""
    torch.manual_seed(0)
    dims = ModelDimensions(
        n_mels=80,
        n_audio_ctx=1500,
        n_audio_state=64,
        n_audio_head=1,
        n_audio_layer=2,
        n_vocab=51864,
        n_text_ctx=448,
        n_text_state=64,
        n_text_head=1,
        n_text_layer=1,
    )
    model = Whisper(dims).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.2)
    return model
