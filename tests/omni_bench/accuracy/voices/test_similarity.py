"""Voices that differ from the others of a run."""

import numpy as np
import pytest

from omni_bench.accuracy.asr.clips import AsrClip
from omni_bench.accuracy.voices import similarity
from omni_bench.accuracy.voices.similarity import (
    VoicePrint,
    VoiceSimilarity,
    compare_level,
    cosine,
    median_voice,
    outlier_limit,
    summarise_voices,
    voice_fields,
    voice_from_fields,
    voice_prints,
    without_outer_silence,
)


def vector(*values):
    array = np.array(values, float)
    return array / np.linalg.norm(array)


def level(count=12, spread=0.05):
    rng = np.random.default_rng(0)
    noisy = [[vector(1, *rng.normal(0, spread, 3)) for _ in range(3)] for _ in range(count)]
    return {f"r{index}": VoicePrint(*three) for index, three in enumerate(noisy)}


STRANGE = vector(0.3, 1, 0, 0)


def outliers(similarities):
    return {name for name, one in similarities.items() if one.outlier}


def test_a_strange_onset_or_a_strange_whole_falls_out_and_nothing_else_does():
    assert outliers(compare_level(level())) == set()
    prints = level()
    prints["r3"] = VoicePrint(STRANGE, prints["r3"].rest, prints["r3"].whole)
    prints["r5"] = VoicePrint(prints["r5"].onset, STRANGE, STRANGE)
    assert outliers(compare_level(prints)) == {"r3", "r5"}
    assert compare_level(prints)["r3"].onset_rest < 0.6 < compare_level(prints)["r4"].onset_rest


def test_identical_outputs_have_no_outliers_among_them():
    same = VoicePrint(*[vector(1, 0)] * 3)
    nearly = VoicePrint(*[vector(1, 0.1)] * 3)
    assert outliers(compare_level({**{str(i): same for i in range(20)}, "odd": nearly})) == set()


def test_a_recording_that_was_sent_is_the_anchor():
    prints, references = {}, {}
    for index in range(12):
        own = vector(1, 0) if index % 2 else vector(0, 1)
        prints[str(index)] = VoicePrint(own, own, own)
        references[str(index)] = VoicePrint(None, None, own)
    assert outliers(compare_level(prints, references)) == set()
    swapped = prints | {"4": prints["5"]}
    assert outliers(compare_level(swapped, references)) == {"4"}
    del references["4"]
    assert compare_level(swapped, references)["4"].outlier is None


def test_too_few_or_too_short_utterances_are_not_judged():
    few = compare_level(level(7))
    assert {one.outlier for one in few.values()} == {None}
    prints = level() | {"short": VoicePrint(None, None, None)}
    assert compare_level(prints)["short"] == VoiceSimilarity(None, None, None, None)
    assert compare_level({}) == {}


def test_helpers_at_their_edges():
    assert cosine(None, vector(1, 0)) is None and cosine(vector(1, 0), vector(0, 1)) == 0
    assert median_voice([vector(1, 0)] * 7) is None and median_voice([np.zeros(2)] * 9) is None
    assert outlier_limit([0.9] * 7 + [None, float("nan")]) is None
    assert outlier_limit([0.9] * 8) == pytest.approx(0.9 - 3.5 * similarity.MIN_DEVIATION)


def test_a_level_is_counted():
    some = [VoiceSimilarity(None, 0.9, 0.9, False), VoiceSimilarity(None, 0.1, 0.9, True), VoiceSimilarity(*[None] * 4)]
    summary = summarise_voices(some)
    assert (summary.checked, summary.outliers) == (2, 1)
    assert summarise_voices([some[2]]).outliers is None


@pytest.mark.parametrize("one", [VoiceSimilarity(0.5, 0.25, None, True), VoiceSimilarity(None, 0.5, 0.5, False), None])
def test_fields_survive_a_file(one):
    assert voice_from_fields(voice_fields(one)) == one
    assert voice_from_fields({}) is None


def test_speech_is_cut_into_its_first_second_and_the_rest():
    class Sizes:
        def embed(self, speech):
            return [np.array([float(piece.size)]) for piece in speech]

    tone = (8000 * np.sin(0.2 * np.arange(40000))).astype(np.int16)
    padded = np.concatenate([np.zeros(8000, np.int16), tone, np.zeros(16000, np.int16)])
    (one,) = voice_prints(Sizes(), [AsrClip("a", padded, 16000)])
    assert one.onset[0] == 16000 and one.rest[0] + 16000 == one.whole[0] == 40000
    assert without_outer_silence(np.zeros(5000, np.float32)).size == 0
    assert without_outer_silence(np.zeros(0, np.float32)).size == 0
