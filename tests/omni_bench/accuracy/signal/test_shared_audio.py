"""Samples of a neighbour are found and its request is named; what may legitimately be equal is not."""

from collections import Counter

import numpy as np
import pytest
from voices import RATE, speech

from omni_bench.accuracy.signal import shared_audio
from omni_bench.accuracy.signal.shared_audio import ResponseClip, SharedAudio, find_shared_audio, may_share

S = 1_000_000_000


def clip(name, text=None, seed=0, started=0, finished=S, rate=RATE):
    return ResponseClip(name, text or f"text of {name}", seed, started, finished, rate)


def find(samples, clips=None):
    return find_shared_audio(clips or [clip(name) for name in samples], samples)


def spoilt(length=9000, at=20_000, source_at=42_000):
    samples = {"victim": speech(seed=1).copy(), "owner": speech(seed=2)}
    samples["victim"][at : at + length] = samples["owner"][source_at : source_at + length]
    return samples


def test_clean_requests_share_nothing():
    assert find({str(seed): speech(seed=seed) for seed in range(6)}) == []


def test_the_victim_and_its_source_are_named():
    assert find(spoilt()) == [SharedAudio("victim", "owner", 20_000 / RATE, 42_000 / RATE, 9000 / RATE)]


def test_the_order_of_the_requests_does_not_matter():
    samples = spoilt()
    clips = [clip("owner"), clip("victim")]
    assert find(samples, clips) == find(samples)


def test_a_stretch_with_smooth_joins_names_both():
    rng = np.random.default_rng(0)
    noise = {name: np.round(rng.normal(size=30_000) * 2000).astype("<i2") for name in ("a", "b")}
    noise["a"][10_000:15_000] = noise["b"][3000:8000]
    assert {(one.victim, one.source) for one in find(noise)} == {("a", "b"), ("b", "a")}


def test_equal_beginnings_are_no_fault_but_the_same_later_is():
    first, second = speech(seed=1), speech(seed=2).copy()
    second[:30_000] = first[:30_000]
    assert find({"a": first, "b": second}) == []
    second[100] += 1
    assert len(find({"a": first, "b": second})) >= 1


def test_inaudible_and_short_stretches_are_no_evidence():
    assert find(spoilt(length=900)) == []
    samples = {"a": speech(seed=1) // 500, "b": speech(seed=2) // 500}
    samples["a"][5000:40_000] = samples["b"][9000:44_000]
    assert find(samples) == []


def test_equal_tones_are_no_evidence():
    tone = np.round(8000 * np.sin(2 * np.pi * 220 * np.arange(4 * RATE) / RATE)).astype("<i2")
    assert find({"a": tone[:50_000], "b": tone[1000:90_000]}) == []


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (clip("a"), clip("b"), True),
        (clip("a", started=3 * S, finished=4 * S), clip("b", finished=S), True),
        (clip("a", started=30 * S, finished=31 * S), clip("b", finished=S), False),
        (clip("a", text="Same."), clip("b", text="Same."), False),
        (clip("a", text="Well. I go"), clip("b", text="He left. Well!"), False),
        (clip("a", seed=1, text="Well I go"), clip("b", seed=2, text="Well I stay"), True),
        (clip("a"), clip("b", rate=16_000), False),
    ],
)
def test_which_requests_are_compared(one, other, expected):
    assert may_share(one, other) is expected
    assert may_share(other, one) is expected


def test_hostile_input():
    empty, short = np.zeros(0, "<i2"), np.ones(10, "<i2")
    assert find({"a": empty, "b": short, "c": np.zeros(RATE, "<i2")}) == []
    assert find({}) == []


def test_the_same_answer_to_everything_is_a_common_beginning():
    answer = speech()
    assert find({str(number): answer for number in range(5)}) == []


def test_many_are_compared_with_those_near_them_alone():
    """Across the edges of what is compared in one go, and not with a response of long before."""
    count = 2 * shared_audio.TOGETHER + 3
    samples = {str(number): speech(0.6, seed=number).copy() for number in range(count)}
    owner, near, far = shared_audio.TOGETHER - 1, shared_audio.TOGETHER, count - 1
    for victim in (near, far):
        samples[str(victim)][6000:10_000] = samples[str(owner)][500:4500]
    clips = [clip(str(number), started=number * S // 10, finished=number * S // 10 + S) for number in range(count)]
    asked = []

    def spread(work, tasks):
        for task in tasks:
            asked.append(len(task.clips))
            yield work(task)

    found = find_shared_audio(clips[::-1], samples, spread=spread)
    assert {frozenset((one.victim, one.source)) for one in found} == {frozenset((str(near), str(owner)))}
    assert len(asked) == 3 and max(asked) <= 2 * shared_audio.TOGETHER < count


def test_a_server_that_gives_everybody_the_same_is_not_followed_to_the_last(monkeypatch):
    monkeypatch.setattr(shared_audio, "MOST_SOURCES", 3)
    samples = {str(number): speech(0.6, seed=number).copy() for number in range(8)}
    for number, one in enumerate(samples.values()):
        one[2000 + 100 * number :][:5000] = speech(0.6, seed=99)[:5000]
    sources = Counter(one.victim for one in find(samples))
    assert set(sources) >= {str(number) for number in range(1, 8)} and sum(sources.values()) <= 2 * 3 * 8
