"""The form of samples by their bytes alone: what is clear is named, what is 16-bit mono never."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
import soundfile

from omni_bench.accuracy.signal.sample_form import other_form
from omni_bench.datasets.bundled import bundled_root

RECORDINGS = sorted(bundled_root().glob("seed_tts_mini/en/*/*.wav")) or sorted(bundled_root().rglob("*.wav"))


def coded(pcm, subtype, endian="LITTLE"):
    file = io.BytesIO()
    soundfile.write(file, pcm, 24_000, format="RAW", subtype=subtype, endian=endian)
    return file.getvalue()


def other_channel(pcm, other):
    return np.stack([pcm, other], axis=1).astype("<i2").tobytes()


def dithered(pcm):
    return pcm * 65536.0 + np.random.default_rng(0).integers(0, 65536, len(pcm))


FORMS = {
    "64-bit floats": lambda pcm: (pcm / 32768).astype("<f8").tobytes(),
    "32-bit floats": lambda pcm: (pcm / 32768).astype("<f4").tobytes(),
    "big-endian 32-bit floats": lambda pcm: (pcm / 32768).astype(">f4").tobytes(),
    "16-bit floats": lambda pcm: (pcm / 32768).astype("<f2").tobytes(),
    "A-law": lambda pcm: coded(pcm, "ALAW"),
    "µ-law": lambda pcm: coded(pcm, "ULAW"),
    "unsigned 8-bit samples": lambda pcm: coded(pcm, "PCM_U8"),
    "signed 8-bit samples": lambda pcm: coded(pcm, "PCM_S8"),
    "24-bit samples": lambda pcm: coded(pcm, "PCM_24"),
    "big-endian 24-bit samples": lambda pcm: coded(pcm, "PCM_24", "BIG"),
    "32-bit integers": lambda pcm: dithered(pcm).astype("<i4").tobytes(),
    "32-bit integers, or two channels of which the first is silent": lambda pcm: coded(pcm, "PCM_32"),
    "two channels of which the second is silent": lambda pcm: other_channel(pcm, 0 * pcm),
    "two channels with the same samples": lambda pcm: other_channel(pcm, pcm),
    "two channels of different loudness": lambda pcm: other_channel(pcm, pcm // 2),
    "two channels": lambda pcm: other_channel(pcm, -np.maximum(pcm, -32767)),
    "big-endian samples": lambda pcm: pcm.astype(">i2").tobytes(),
    "16-bit samples that begin a byte late": lambda pcm: b"\0" + pcm.astype("<i2").tobytes() + b"\0",
    "hexadecimal text": lambda pcm: pcm.astype("<i2").tobytes().hex().encode(),
    "base64 text": lambda pcm: base64.b64encode(pcm.astype("<i2").tobytes()),
}


@pytest.mark.parametrize("path", RECORDINGS[:4], ids=lambda path: path.name)
def test_the_forms_of_a_recording(path):
    pcm = soundfile.read(path, dtype="int16")[0]
    assert {name: other_form(form(pcm)) for name, form in FORMS.items()} == {name: name for name in FORMS}
    peak = np.abs(pcm.astype(int)).max()
    for loud in (pcm, pcm * (32_000 / peak), pcm * (500 / peak), pcm[len(pcm) // 3 :][:4800]):
        assert other_form(loud.astype("<i2").tobytes()) is None


def test_noise_silence_and_little_are_nothing(recwarn):
    random = np.random.default_rng(1)
    noise = random.integers(-9000, 9000, 24_000).astype("<i2").tobytes()
    for data in (noise, random.bytes(48_000), bytes(48_000), noise[:2000]):
        assert other_form(data) is None
    assert not recwarn.list
