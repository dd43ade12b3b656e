"""Every signal fault gets its name, clean speech gets none, and a level is judged together."""

import numpy as np
import pytest
from timelines import make_timeline
from voices import RATE, speech

from omni_bench.accuracy.signal.checks import chunk_edges, level_findings, signal_findings
from omni_bench.accuracy.signal.level_audio import LevelAudio

EDGES = list(range(7680, 3 * RATE - 480, 7680))
LOUD = round(0.9 * RATE)


def faults(samples, edges=(), text="text"):
    found = signal_findings(samples.astype("<i2"), RATE, edges, text)
    return (*found.faults, *found.broken, *found.repeats)


def spoil(kind):
    samples = speech().astype(np.int32)
    if kind == "clicks":
        for sign, edge in enumerate(EDGES):
            samples[edge:] += 8000 * (-1) ** sign
    elif kind == "dropout":
        samples[LOUD : LOUD + 1920] = 0
    elif kind == "noise":
        noise = np.random.default_rng(0).normal(size=len(samples))
        samples = samples + noise * np.sqrt(np.square(samples).mean() / 10)
    elif kind == "trailing_audio":
        samples = np.concatenate([samples[: round(1.9 * RATE)], speech(seed=3)[LOUD : LOUD + 1920]])
    else:
        samples[40_800:45_600] = samples[21_600:26_400]
    return np.clip(samples, -32768, 32767)


def test_clean_speech():
    assert faults(speech(), EDGES) == ()


@pytest.mark.parametrize("kind", ["clicks", "dropout", "noise", "trailing_audio", "repeated_audio"])
def test_each_fault_has_its_name(kind):
    assert kind in faults(spoil(kind), EDGES)


def test_a_text_that_repeats_itself_may_sound_alike():
    samples = spoil("repeated_audio")
    assert "repeated_audio" in faults(samples, text="no, yes")
    assert "repeated_audio" not in faults(samples, text="no, no")


def test_a_copy_up_to_the_end_is_trailing_audio():
    samples = speech()
    assert {"repeated_audio", "trailing_audio"} <= set(faults(np.concatenate([samples, samples[20_000:50_000]])))


@pytest.mark.parametrize("samples", [np.zeros(0), np.zeros(RATE), np.full(100, 9000)])
def test_nothing_is_claimed_of_what_is_no_speech(samples):
    assert faults(samples) == ()


def test_a_level():
    audio = {"a": speech(seed=1), "b": speech(seed=2).copy()}
    audio["b"][-9000:] = audio["a"][21_000:30_000]
    timelines = [make_timeline(name, chunks=[(10, 40_000), (20, len(audio[name]) - 40_000)]) for name in audio]
    found, _ = level_findings(timelines, ["one", "two"], audio)
    assert found["a"].faults == ()
    assert "shared_audio" in found["b"].faults
    assert "trailing_audio" in found["b"].faults
    assert [(one.source, one.duration_s) for one in found["b"].shared] == [("a", 9000 / RATE)]
    assert level_findings([], [], audio) == ({}, LevelAudio())


def test_edges_are_those_of_http_chunks():
    chunks = [(1, 100), (2, 50), (3, 70), (4, 0)]
    assert chunk_edges(make_timeline(chunks=chunks)) == [100, 150]
    assert chunk_edges(make_timeline(chunks=chunks, ends=[True, False, True, True])) == [100]
    assert chunk_edges(make_timeline(chunks=[])) == []


def spoken_level(samples_of, count=4):
    audio = {f"c{index}": samples_of(index) for index in range(count)}
    timelines = [make_timeline(name, chunks=[(10, len(samples))]) for name, samples in audio.items()]
    return level_findings(timelines, [f"text {name}" for name in audio], audio)


def test_a_voice_that_closes_abruptly_by_itself_has_no_dropouts():
    """As espeak-ng does: 50 ms of digital silence within speech. Where only one answer does, it lost a frame."""

    def closing(index):
        samples = speech(seed=index)
        samples[LOUD : LOUD + 1200] = 0
        samples[2 * LOUD : 2 * LOUD + 1920] = 0
        return samples

    found, together = spoken_level(closing)
    assert not any("dropout" in one.faults for one in found.values())
    assert together.not_held == {"dropout": 4}
    found, together = spoken_level(lambda index: speech(seed=index) if index else spoil("dropout").astype("<i2"))
    assert [one.faults for one in found.values()] == [("dropout",), (), (), ()] and together.not_held == {}


def test_a_voice_that_speaks_equal_samples_shares_no_audio():
    def equal(index):
        samples = speech(seed=index)
        samples[LOUD : LOUD + 1400] = speech(seed=99)[LOUD : LOUD + 1400]  # 58 ms: no frame
        samples[-30_000:-20_000] = speech(seed=99)[-30_000:-20_000]
        return samples

    found, together = spoken_level(equal)
    assert together.not_held["shared_audio"] >= 3
    assert not any(one.shared or "shared_audio" in one.faults for one in found.values())
