"""The judge's own error, measured on the reference recordings."""

import numpy as np
import pytest
import soundfile

from omni_bench.accuracy.asr.clips import Transcript, clip_duration_s, load_samples_16k
from omni_bench.accuracy.judge_error import MAX_REFERENCES, own_error, own_error_json, references_of
from omni_bench.records.prompt import Prompt


def prompt(folder, index, text="one two three", seconds=1.0, name=None):
    path = folder / (name or f"ref_{index:02d}.wav")
    if not path.exists():
        soundfile.write(path, np.sin(np.arange(round(seconds * 24000)) / 20) / 2, 24000)
    return Prompt(f"p{index}", "said", text, path, "en")


def heard(*texts):
    return [Transcript("r", text, -0.1, 0.0) for text in texts]


def test_distinct_recordings_with_texts_are_taken_in_order_up_to_a_limit(tmp_path):
    prompts = [prompt(tmp_path, index) for index in range(20)]
    found = references_of([prompts[0], prompts[0], *prompts]).heard
    assert [reference.clip.pcm16 for reference in found] == [one.ref_audio for one in prompts[:MAX_REFERENCES]]
    assert {reference.text for reference in found} == {"one two three"}
    assert len({reference.clip.request_id for reference in found}) == MAX_REFERENCES


def test_what_cannot_be_heard_is_left_out(tmp_path):
    broken = tmp_path / "broken.wav"
    broken.write_bytes(b"RIFF but no more")
    prompts = [
        Prompt("no-audio", "said", "text", None, "en"),
        prompt(tmp_path, 1, text=None),
        prompt(tmp_path, 2, text=""),
        prompt(tmp_path, 3, seconds=31),
        prompt(tmp_path, 4, seconds=0),
        Prompt("broken", "said", "text", broken, "en"),
        Prompt("gone", "said", "text", tmp_path / "gone.wav", "en"),
        Prompt("raw", "said", "text", tmp_path / "speech.pcm", "en"),
        prompt(tmp_path, 9),
    ]
    tone = np.sin(np.arange(3 * 24000) / 20) / 2
    soundfile.write(tmp_path / "nan.wav", np.full(24000, np.nan), 24000, subtype="FLOAT")
    soundfile.write(tmp_path / "partly.wav", np.where(np.arange(72000) == 5, np.inf, tone), 24000, subtype="FLOAT")
    soundfile.write(tmp_path / "silent.wav", np.zeros((24000, 2)), 24000)
    soundfile.write(tmp_path / "whole.mp3", tone, 24000, format="MP3")
    whole = (tmp_path / "whole.mp3").read_bytes()
    (tmp_path / "short.mp3").write_bytes(whole[: len(whole) // 4])
    long_text = "It takes a person about three seconds to say this."
    prompts += [prompt(tmp_path, 0, long_text, name=name) for name in ("nan.wav", "partly.wav", "silent.wav")]
    prompts.append(prompt(tmp_path, 0, long_text, name="short.mp3"))
    found = references_of(prompts)
    assert [reference.clip.pcm16.name for reference in found.heard] == ["ref_09.wav"]
    for name, why in [
        ("ref_03.wav", "31.0 s, at most 30 s are heard"),
        ("ref_04.wav", "no samples"),
        ("broken.wav", "Error opening"),
        ("gone.wav", "Error opening"),
        ("speech.pcm", "raw samples"),
        ("nan.wav", "not finite"),
        ("partly.wav", "not finite"),
        ("silent.wav", "silent"),
        ("short.mp3", "is it cut off?"),
    ]:
        assert any(one.startswith(f"{name}: ") and why in one for one in found.unheard), (name, found.unheard)
    told = own_error_json(None, wanted=True, unheard=found.unheard)
    assert told["own_wer_reason"].startswith("no reference recording can be heard; ref_03.wav: 31.0 s")


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.flac", {"format": "FLAC"}),
        ("a.mp3", {"format": "MP3"}),
        ("a.ogg", {"format": "OGG", "subtype": "VORBIS"}),
        ("a.wav", {"format": "WAVEX", "subtype": "PCM_16"}),
        ("mp3_in.wav", {"format": "MP3"}),
        ("a.rf64", {"format": "RF64", "subtype": "PCM_16"}),
    ],
)
def test_recordings_in_any_container_are_heard(tmp_path, name, form):
    tone = np.sin(np.arange(24000) / 20) / 2
    soundfile.write(tmp_path / name, tone, 24000, **form)
    (found,) = references_of([prompt(tmp_path, 1, name=name)]).heard
    assert abs(load_samples_16k(found.clip).size - 16000) < 2000


@pytest.mark.parametrize(("right", "heard_at"), [(-1.0, 0.35), (-0.8, 0.35), (0.0, 0.177), (1.0, 0.35)])
def test_channels_that_cancel_each_other_out_are_heard_by_one(tmp_path, right, heard_at):
    tone = np.sin(np.arange(24000) / 20) / 2
    soundfile.write(tmp_path / "stereo.wav", np.stack([tone, right * tone], axis=1), 24000)
    (found,) = references_of([prompt(tmp_path, 1, name="stereo.wav")]).heard
    assert np.sqrt(np.square(load_samples_16k(found.clip)).mean()) == pytest.approx(heard_at, abs=0.01)


def test_a_wav_that_does_not_say_how_long_it_is_is_heard(tmp_path):
    """Streamed to disk with a size of 0, which libsndfile takes at its word."""
    path = tmp_path / "streamed.wav"
    soundfile.write(path, np.full(24000, 0.25), 24000)
    whole = path.read_bytes()
    path.write_bytes(whole[:40] + bytes(4) + whole[44:])
    (found,) = references_of([prompt(tmp_path, 1, name=path.name)]).heard
    assert clip_duration_s(found.clip) == 1.0 and load_samples_16k(found.clip).max() > 0.2


def test_the_rates_are_of_the_corpus(tmp_path):
    references = references_of([prompt(tmp_path, 1, "the cat sat"), prompt(tmp_path, 2, "a dog ran far away")]).heard
    error = own_error(references, heard("the cat sat", "a dog ran far off"), "en")
    assert (error.wer, error.utterances, error.words) == (1 / 8, 2, 8)
    assert own_error_json(error, wanted=True)["own_wer"] == {
        "wer": 1 / 8,
        "cer": error.cer,
        "utterances": 2,
        "words": 8,
    }


def test_without_recordings_there_is_a_reason_and_no_figure(tmp_path):
    assert own_error([], [], "en") is None
    assert own_error(references_of([prompt(tmp_path, 1, text="...")]).heard, heard("you"), "en") is None
    missing = own_error_json(None, wanted=True)
    assert missing["own_wer"] is None and "no reference recordings" in missing["own_wer_reason"]
    assert own_error_json(None, wanted=False)["own_wer_reason"] == "asr.own_error=false"
