"""Cutting and labelling the teacher's audio, and chunk files."""

from __future__ import annotations

import numpy as np
import pytest

from omni_bench.errors import DatasetError
from reference_impl.training import synthesise
from reference_impl.training.corpus import load_corpus
from reference_impl.training.synthesise import finished_chunks, hours, make_chunk, read_audio, read_info
from reference_impl.training.teacher import AUDIBLE, LEAD_S, MAX_FRAMES, Utterance, cut, voice_of


def spoken_wave(lead_s: float, speech_s: float, tail_s: float) -> np.ndarray:
    parts = [np.zeros(int(24_000 * lead_s)), 0.3 * np.ones(int(24_000 * speech_s)), np.zeros(int(24_000 * tail_s))]
    return np.concatenate(parts).astype(np.float32)


@pytest.mark.parametrize("lead_s", [0.05, 0.18, 0.5])
def test_every_utterance_gets_the_same_lead_whatever_the_teacher_left(lead_s):
    wave = spoken_wave(lead_s, 1.0, 0.4)
    ends = np.array([lead_s, lead_s + 0.5, lead_s + 1.0, lead_s + 1.4]) * 24_000
    utterance = cut(wave, ends, np.array([0, 11, 12, 0]), voice=0)
    lead = np.nonzero(np.abs(utterance.samples) > AUDIBLE * 32767)[0][0]
    assert lead / 24_000 == pytest.approx(LEAD_S, abs=0.001)
    assert len(utterance.samples) == 1920 * utterance.frames
    # 180 ms of silence, 500 ms each of two phonemes, in half frames of 40 ms
    labels = utterance.labels.ravel()
    assert labels[:4].tolist() == [0] * 4 and labels[6] == 11 and labels[16] == 11 and labels[18] == 12
    tail = len(utterance.samples) - np.nonzero(utterance.samples)[0][-1]
    assert 0.16 * 24_000 <= tail <= 0.16 * 24_000 + 1920


def test_silence_and_overlong_readings_are_refused():
    assert cut(np.zeros(48_000, np.float32), np.array([1.0, 48_000.0]), np.array([0, 5]), 0) is None
    wave = spoken_wave(0.2, 0.08 * (MAX_FRAMES + 1), 0.1)
    assert cut(wave, np.array([4800.0, float(len(wave))]), np.array([0, 5]), 0) is None


def test_a_third_of_the_sentences_is_read_by_the_second_voice():
    assert sum(voice_of(i) for i in range(99)) == 33


class FakeTeacher:
    """Half a second of noise a phoneme; sentence 1 is not spoken."""

    def speak(self, phonemes, voice, seed):
        if seed == 1:
            return None
        rng = np.random.default_rng(seed)
        frames = len(phonemes)
        samples = rng.integers(-99, 99, frames * 1920).astype(np.int16)
        return Utterance(samples, np.zeros((frames, 2), np.uint8), voice)


def test_a_chunk_holds_what_was_spoken(toy, tmp_path, monkeypatch):
    monkeypatch.setattr(synthesise, "CHUNK_SENTENCES", 4)
    corpus = load_corpus(toy.corpus)
    assert synthesise.chunk_count(corpus) == 2
    frames = make_chunk(corpus, FakeTeacher(), 0, tmp_path)
    info, audio = read_info(tmp_path, "c0000"), read_audio(tmp_path, "c0000")
    assert info.sentences.tolist() == [0, 2, 3] and info.voices.tolist() == [0, 1, 0]
    assert audio.shape == (frames, 1920) and info.frames.sum() == frames == len(info.labels)
    assert finished_chunks(tmp_path) == ["c0000"]
    assert hours(tmp_path) == pytest.approx(frames / 45_000, rel=0.01)
    before = audio.copy()
    make_chunk(corpus, FakeTeacher(), 0, tmp_path)
    assert np.array_equal(before, read_audio(tmp_path, "c0000"))


def test_a_broken_chunk_table_is_named(tmp_path):
    (tmp_path / "c0000.npz").write_bytes(b"no")
    with pytest.raises(DatasetError, match="c0000"):
        read_info(tmp_path, "c0000")
