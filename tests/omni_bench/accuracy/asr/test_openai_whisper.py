"""The judge on openai-whisper: batches, and a limit for each recording on how much it may write."""

import dataclasses

import numpy as np
import pytest
import torch

from omni_bench.accuracy.asr.clips import AsrClip
from omni_bench.accuracy.asr.openai_whisper import Judge, load_judge, token_cap
from omni_bench.accuracy.asr.settings import JudgeSettings
from omni_bench.accuracy.asr.weights.files import sha256_of_files
from omni_bench.accuracy.asr.weights.packages import find_installed_weights
from omni_bench.accuracy.asr.weights.resolve import JudgeSpec, resolve_judge
from omni_bench.errors import AccuracyError

SETTINGS = JudgeSettings(batch_size=4, lead_silence_ms=250, tail_silence_ms=200)


def noise(seconds: float, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 3000, round(seconds * 16000)).astype(np.int16)


def clip(seconds: float, seed: int = 0, language: str | None = None) -> AsrClip:
    return AsrClip(f"r{seed}", noise(seconds, seed), 16000, language)


@pytest.fixture
def judge(small_whisper) -> Judge:
    return Judge(small_whisper, "cpu", 15.0, SETTINGS)


def token_counts(judge: Judge, clips, language="en", monkeypatch=None) -> list[int]:
    """How many tokens each clip was decoded to, from the batches as they pass."""
    counts = {}
    original = judge._decode

    def spy(batch, code, context_s):
        results = original(batch, code, context_s)
        for window, result in zip(batch, results, strict=True):
            counts.setdefault(window.clip_index, []).append((result[1], context_s))
        return results

    monkeypatch.setattr(judge, "_decode", spy)
    judge.transcribe(clips, language)
    return [counts.get(index, []) for index in range(len(clips))]


def test_a_babbling_decoder_is_stopped_by_each_clips_own_cap(judge, monkeypatch):
    seconds = (0.5, 1.0, 2.0)
    counts = token_counts(judge, [clip(s, i) for i, s in enumerate(seconds)], monkeypatch=monkeypatch)
    # Random weights never choose the end by themselves, so that the caps are what shows.
    assert counts == [[(16 + 14 * 0.5, 15.0)], [(16 + 14, 15.0)], [(16 + 28, 15.0)]]


def test_the_cap_never_exceeds_whispers_own():
    assert token_cap(0.0, 224) == 16
    assert token_cap(1.01, 224) == 31
    assert token_cap(100.0, 224) == 224


def test_a_clip_is_heard_alike_alone_and_among_others(judge):
    clips = [clip(0.4 + 0.3 * index, index) for index in range(5)]
    together = judge.transcribe(clips, "en")
    for index, alone in enumerate(clips):
        (transcript,) = judge.transcribe([alone], "en")
        assert transcript.request_id == together[index].request_id
        assert transcript.text == together[index].text
        assert transcript.avg_logprob == pytest.approx(together[index].avg_logprob, abs=1e-4)
    assert len({transcript.text for transcript in together}) > 1


def test_context_and_windows_follow_from_the_clips_own_length(judge, monkeypatch):
    monkeypatch.setattr("omni_bench.accuracy.asr.openai_whisper.CAP_TOKENS_PER_S", 0.0)
    counts = token_counts(judge, [clip(8.5), clip(8.6, 1), clip(31.0, 2)], monkeypatch=monkeypatch)
    assert counts == [[(16, 15.0)], [(16, 30.0)], [(16, 30.0), (16, 30.0)]]


def test_the_context_is_restored_between_batches(judge, small_whisper):
    judge.transcribe([clip(9.0)], "en")
    positions = small_whisper.encoder.positional_embedding.clone()
    first = judge.transcribe([clip(1.0)], "en")
    assert small_whisper.encoder.positional_embedding.shape == (750, 64)
    judge.transcribe([clip(9.0)], "en")
    assert torch.equal(small_whisper.encoder.positional_embedding, positions)
    assert judge.transcribe([clip(1.0)], "en") == first


def test_empty_clips_are_heard_as_nothing(judge):
    empty, spoken = judge.transcribe([AsrClip("none", np.zeros(0, np.int16), 24000), clip(0.5)], "en")
    assert dataclasses.astuple(empty) == ("none", "", None, None)
    assert spoken.text
    assert spoken.avg_logprob < 0
    assert 0 <= spoken.no_speech_prob <= 1


def test_an_english_model_refuses_other_languages(judge):
    with pytest.raises(AccuracyError, match="English only, the clips are in 'zh'"):
        judge.transcribe([clip(0.5)], "zh")
    with pytest.raises(AccuracyError, match="English only, the clips are in 'de'"):
        judge.transcribe([clip(0.5, language="de")], "en")


def pt_spec(path) -> JudgeSpec:
    return JudgeSpec("own", "path", str(path), (path,), sha256_of_files([path]), "cpu", 30.0)


def test_a_checkpoint_of_openais_form_loads(tmp_path, small_whisper):
    path = tmp_path / "own.pt"
    checkpoint = {"dims": dataclasses.asdict(small_whisper.dims), "model_state_dict": small_whisper.state_dict()}
    torch.save(checkpoint, path)
    loaded = load_judge(pt_spec(path), SETTINGS)
    expected = Judge(small_whisper, "cpu", 30.0, SETTINGS)
    assert loaded.transcribe([clip(0.5)], "en") == expected.transcribe([clip(0.5)], "en")


class _RunsCode:
    def __reduce__(self):
        return (open, ("/dev/null",))


@pytest.mark.parametrize(
    "content",
    [b"", b"text", {"dims": {}}, {"dims": {"n_mels": 80}, "model_state_dict": {}}, [1, 2], {"dims": _RunsCode()}],
)
def test_other_files_are_refused_without_running_them(tmp_path, content):
    path = tmp_path / "own.pt"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        torch.save(content, path)
    with pytest.raises(AccuracyError, match=r"own\.pt is not a Whisper checkpoint"):
        load_judge(pt_spec(path), SETTINGS)


def test_a_checkpoint_that_changed_since_it_was_found_is_refused(tmp_path):
    path = tmp_path / "own.pt"
    path.write_bytes(b"before")
    spec = pt_spec(path)
    path.write_bytes(b"after")
    with pytest.raises(AccuracyError, match="changed since the run began"):
        load_judge(spec, SETTINGS)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_decodes_in_float16_with_the_same_caps(small_whisper, monkeypatch):
    judge = Judge(small_whisper, "cuda", 15.0, SETTINGS)
    clips = [clip(0.5), clip(1.0, 1), clip(9.0, 2)]
    counts = token_counts(judge, clips, monkeypatch=monkeypatch)
    assert counts == [[(23, 15.0)], [(30, 15.0)], [(142, 30.0)]]
    assert all(transcript.avg_logprob < 0 for transcript in judge.transcribe(clips, "en"))


@pytest.fixture(scope="module")
def tiny_en() -> Judge:
    if find_installed_weights("tiny.en") is None:
        pytest.skip("no package with tiny.en is installed")
    return load_judge(resolve_judge("tiny.en", "cpu"), SETTINGS)


def test_the_real_judge_hears_no_words_in_silence_and_noise(tiny_en):
    silence = AsrClip("silence", np.zeros(24000, np.int16), 24000)
    heard = tiny_en.transcribe([silence, clip(2.0, 1)], "en")
    for transcript in heard:
        assert len(transcript.text.split()) <= 3, transcript
        assert transcript.avg_logprob < 0
    assert heard[0].no_speech_prob is not None


@pytest.mark.parametrize("context_s", [15.0, 30.0])
def test_the_real_encoder_is_finite_in_both_contexts(tiny_en, context_s):
    with torch.inference_mode():
        tiny_en._set_context(context_s)
        mel = tiny_en._mel(noise(3.0).astype(np.float32) / 32768, context_s)
        features = tiny_en._model.encoder(mel[None])
    assert features.shape == (1, round(context_s * 50), 384)
    assert bool(torch.isfinite(features).all())
