"""Recordings as the judge takes them: any sample rate, from a file or from memory."""

import numpy as np
import pytest
import soundfile

from omni_bench.accuracy.asr.clips import (
    WHISPER_RATE_HZ,
    AsrClip,
    clip_duration_s,
    load_samples_16k,
    longest_clip_s,
    split_into_windows,
    with_silence,
)
from omni_bench.errors import AccuracyError


def tone(seconds: float, rate_hz: int, frequency_hz: float = 440.0) -> np.ndarray:
    times = np.arange(round(seconds * rate_hz)) / rate_hz
    return np.round(10000 * np.sin(2 * np.pi * frequency_hz * times)).astype(np.int16)


@pytest.mark.parametrize("rate_hz", [8000, 16000, 22050, 24000, 44100, 48000])
def test_any_rate_becomes_16_khz_with_the_same_tone(rate_hz):
    samples = load_samples_16k(AsrClip("a", tone(1.0, rate_hz), rate_hz))
    assert samples.dtype == np.float32
    assert samples.size == WHISPER_RATE_HZ
    spectrum = np.abs(np.fft.rfft(samples))
    assert np.argmax(spectrum) == 440  # one hertz a bin
    inner = samples[1000:-1000]
    assert np.abs(inner).max() == pytest.approx(10000 / 32768, rel=0.02)


def test_what_16_khz_cannot_hold_is_filtered_out():
    samples = load_samples_16k(AsrClip("a", tone(1.0, 24000, 11000.0), 24000))
    assert np.abs(samples[1000:-1000]).max() < 0.01 * 10000 / 32768


def test_a_raw_file_an_array_and_a_wav_sound_the_same(tmp_path):
    pcm16 = tone(0.5, 24000)
    raw, wav = tmp_path / "a.pcm", tmp_path / "a.WAV"
    raw.write_bytes(pcm16.astype("<i2").tobytes() + b"\x7f")  # and half a sample
    soundfile.write(wav, pcm16, 24000, subtype="PCM_16", format="WAV")
    expected = load_samples_16k(AsrClip("a", pcm16, 24000))
    for path, rate_hz in ((raw, 24000), (wav, 8000)):  # the header's rate counts, not the clip's
        clip = AsrClip("a", path, rate_hz)
        np.testing.assert_array_equal(load_samples_16k(clip), expected)
        assert clip_duration_s(clip) == 0.5


def test_an_empty_clip_has_no_samples_and_no_windows(tmp_path):
    path = tmp_path / "empty.pcm"
    path.write_bytes(b"")
    for pcm16 in (path, np.zeros(0, np.int16)):
        clip = AsrClip("a", pcm16, 24000)
        assert clip_duration_s(clip) == 0
        assert split_into_windows(load_samples_16k(clip), 29.0) == []


@pytest.mark.parametrize(
    ("pcm16", "rate_hz", "message"),
    [
        (np.zeros(10, np.float32), 24000, "one-dimensional int16 array, found float32"),
        (np.zeros((2, 10), np.int16), 24000, r"shape \[2, 10\]"),
        (np.zeros(10, np.int16), 0, "sample rate 0 Hz, valid are 4000 to 192000"),
        (np.zeros(4000 * 1801, np.int16), 4000, "1801 s of audio, at most 1800"),
    ],
)
def test_bad_clips_are_named(pcm16, rate_hz, message):
    with pytest.raises(AccuracyError, match=rf"clip r7: .*{message}"):
        load_samples_16k(AsrClip("r7", pcm16, rate_hz))


def test_unreadable_files_are_named(tmp_path):
    broken = tmp_path / "broken.wav"
    broken.write_bytes(b"RIFF and no more")
    for path in (broken, tmp_path / "missing.wav", tmp_path / "missing.pcm"):
        for function in (clip_duration_s, load_samples_16k):
            with pytest.raises(AccuracyError, match=rf"clip r7: cannot read .*{path.name}"):
                function(AsrClip("r7", path, 24000))


def test_windows_are_the_clip_cut_in_its_pauses():
    rng = np.random.default_rng(0)
    samples = rng.normal(0, 0.1, 70 * WHISPER_RATE_HZ).astype(np.float32)
    pauses_s = (25.0, 48.0)
    for pause_s in pauses_s:
        samples[round(pause_s * WHISPER_RATE_HZ) : round((pause_s + 0.3) * WHISPER_RATE_HZ)] = 0
    windows = split_into_windows(samples, 29.55)
    np.testing.assert_array_equal(np.concatenate(windows), samples)
    ends_s = np.cumsum([window.size for window in windows]) / WHISPER_RATE_HZ
    assert len(windows) == 3
    for end_s, pause_s in zip(ends_s, pauses_s, strict=False):
        assert pause_s < end_s < pause_s + 0.3


@pytest.mark.parametrize("seconds", [29.0, 29.55, 29.56, 300.0])
@pytest.mark.parametrize("kind", ["noise", "silence"])
def test_the_number_of_windows_is_bounded(seconds, kind):
    rng = np.random.default_rng(1)
    samples = np.zeros(round(seconds * WHISPER_RATE_HZ), np.float32)
    if kind == "noise":
        samples += rng.normal(0, 0.1, samples.size).astype(np.float32)
    windows = split_into_windows(samples, 29.55)
    assert sum(window.size for window in windows) == samples.size
    assert max(window.size for window in windows) <= 29.55 * WHISPER_RATE_HZ
    assert len(windows) <= 1 + seconds / (0.6 * 29.55)


def test_silence_goes_before_and_after():
    padded = with_silence(np.ones(100, np.float32), 250, 200)
    assert padded.size == 4000 + 100 + 3200
    assert padded[:4000].sum() == padded[4100:].sum() == 0
    assert padded.dtype == np.float32


def test_a_short_context_is_for_clips_that_leave_it_much_silence():
    assert longest_clip_s(30.0, 0.45) == pytest.approx(29.55)
    assert longest_clip_s(15.0, 0.45) == pytest.approx(8.55)
