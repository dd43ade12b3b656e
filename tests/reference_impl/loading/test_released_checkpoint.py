"""Released checkpoint folders: what is read from them, and what is said about broken ones."""

from __future__ import annotations

import base64
import io
import json
import threading

import numpy as np
import pytest
import released_folder as released
import soundfile
import torch
from aiohttp.test_utils import TestClient, TestServer
from safetensors.torch import load_file, save_file

from omni_bench.errors import CheckpointError
from reference_impl.build import build_engine
from reference_impl.engine_api import Finished, SpeechRequest
from reference_impl.http.app import create_app
from reference_impl.loading.checkpoint import load_model
from reference_impl.loading.released_config import read_config
from reference_impl.prompt.builder import capabilities
from reference_impl.settings import ServerSettings


def load(folder):
    return load_model(folder, torch.device("cpu"), torch.float32, 128, 64)


@pytest.fixture
def folder(tmp_path, small):
    released.save_released(tmp_path / "custom", small)
    return tmp_path / "custom"


@pytest.fixture
def base_folder(tmp_path, small_base):
    released.save_released(tmp_path / "base", small_base, task="base", size="0b6")
    return tmp_path / "base"


def edit(path, change):
    """Rewrite a JSON file after ``change`` of its value."""
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def same_parameters(found, expected) -> bool:
    pairs = zip(found.named_parameters(), expected.named_parameters(), strict=True)
    return all(n == m and torch.allclose(p, q, rtol=1e-6, atol=0) for (n, p), (m, q) in pairs)


def test_every_tensor_arrives_where_it_belongs(folder, small):
    loaded = load(folder)
    for stage in ("talker", "predictor", "code2wav"):
        assert same_parameters(getattr(loaded, stage), getattr(small, stage)), stage
    assert loaded.speaker_encoder is None and loaded.codec_encoder is None
    assert torch.equal(loaded.predictor.projected, small.predictor.projected)


def test_a_base_folder_brings_its_encoders(base_folder, small_base):
    loaded = load(base_folder)
    assert same_parameters(loaded.speaker_encoder, small_base.speaker_encoder)
    assert same_parameters(loaded.codec_encoder, small_base.codec_encoder)
    assert all(p.dtype == torch.float32 for p in loaded.codec_encoder.parameters())


def test_the_configuration_is_read_and_not_derived(folder, base_folder, small_config):
    config = read_config(folder)
    assert config.name == "Qwen3-TTS-12Hz-1.7B-CustomVoice"
    assert (config.talker.transformer, config.predictor, config.code2wav) == (
        small_config.talker.transformer,
        small_config.predictor,
        small_config.code2wav,
    )
    assert config.talker.control == small_config.talker.control  # speakers in lower case, one-element lists read
    assert config.talker.suppressed_ids == tuple(i for i in range(2048, 3072) if i != 2150)
    assert (config.sampling.top_k, config.sampling.predictor_top_p, config.sampling.temperature) == (40, 0.9, 0.9)
    assert config.max_frames == 99  # the last of 100 tokens is never turned into a frame
    assert config.text.instructions
    assert not read_config(base_folder).text.instructions


def test_greedy_settings_of_a_checkpoint_are_temperature_zero(folder):
    edit(folder / "generation_config.json", lambda raw: raw.update(do_sample=False, subtalker_dosample=False))
    sampling = read_config(folder).sampling
    assert (sampling.temperature, sampling.predictor_temperature) == (0.0, 0.0)


def test_shards_are_those_that_the_index_names(tmp_path, small):
    folder = tmp_path / "sharded"
    released.save_released(folder, small, shards=3)
    save_file({"stray": torch.ones(1)}, folder / "old.safetensors")  # not in the index: not read
    assert same_parameters(load(folder).talker, small.talker)
    (folder / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"shard\(s\) missing: model-00002-of-00003"):
        load(folder)


@pytest.mark.parametrize("name", ["../model.safetensors", "/etc/passwd", "a/b.safetensors"])
def test_an_index_may_not_leave_the_folder(folder, name):
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"x": name}}))
    with pytest.raises(CheckpointError, match="outside the folder"):
        load(folder)


def test_one_error_lists_everything_wrong_in_both_files(base_folder):
    path, codec_path = base_folder / "model.safetensors", base_folder / "speech_tokenizer" / "model.safetensors"
    tensors, codec = load_file(path), load_file(codec_path)
    del tensors["talker.code_predictor.lm_head.3.weight"]
    del tensors["speaker_encoder.mfa.conv.bias"]
    tensors["talker.model.norm.weight"] = torch.ones(7)
    tensors["talker.surprise"] = torch.ones(2)
    del codec["encoder.downsample.conv.weight"]
    codec["decoder.pre_conv.conv.bias"] = torch.ones(3, 3)
    save_file(tensors, path)
    save_file(codec, codec_path)
    with pytest.raises(CheckpointError) as caught:
        load(base_folder)
    message = str(caught.value)
    assert "missing (3):" in message and "unexpected (1):\n  talker.surprise" in message
    for name in ("lm_head.3.weight", "speaker_encoder.mfa.conv.bias", "encoder.downsample.conv.weight"):
        assert name in message
    assert "wrong shape (2):" in message
    assert "talker.model.norm.weight (7,) do not give (64,)" in message
    assert "decoder.pre_conv.conv.bias (3, 3) do not give (48,)" in message


def test_what_speaking_does_not_need_is_no_error(folder):
    path = folder / "speech_tokenizer" / "model.safetensors"
    spare = ("encoder.downsample.conv.weight", "decoder.quantizer.rvq_rest.input_proj.weight")
    save_file({**load_file(path), **{name: torch.ones(1) for name in spare}}, path)
    load(folder)


def test_a_tensor_in_two_files_is_an_error(folder):
    save_file({"talker.model.norm.weight": torch.ones(64)}, folder / "more.safetensors")
    with pytest.raises(CheckpointError, match=r"talker\.model\.norm\.weight is in both"):
        load(folder)


def test_missing_fields_are_listed_together(folder):
    def remove(raw):
        del raw["talker_config"]["head_dim"], raw["talker_config"]["code_predictor_config"]["vocab_size"]
        del raw["tts_pad_token_id"]

    edit(folder / "config.json", remove)
    with pytest.raises(CheckpointError) as caught:
        load(folder)
    for field in ("talker_config.head_dim", "talker_config.code_predictor_config.vocab_size", "tts_pad_token_id"):
        assert field in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda raw: raw.update(tts_model_type="song"), "tts_model_type='song' is unknown; valid: custom_voice"),
        (lambda raw: raw["talker_config"].update(hidden_size="wide"), "a value has the wrong type"),
        (lambda raw: raw["talker_config"].update(use_sliding_window=True), "use_sliding_window is true"),
        (lambda raw: raw["talker_config"].update(spk_is_dialect={"ryan": "klingon"}), "names klingon"),
        (lambda raw: raw.update(talker_config=[]), "field(s) missing"),
    ],
)
def test_values_that_cannot_be_used_are_named(folder, change, message):
    edit(folder / "config.json", change)
    with pytest.raises(CheckpointError) as caught:
        load(folder)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "name",
    ["config.json", "generation_config.json", "speech_tokenizer/config.json", "speech_tokenizer/model.safetensors"],
)
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(CheckpointError, match=name.rsplit("/")[0].replace(".", r"\.")):
        load(folder)


def test_the_engine_speaks_from_a_released_folder(folder):
    settings = ServerSettings(checkpoint=str(folder), max_batch=2, max_seq_len=96, device="cpu", temperature=0.0)
    engine = build_engine(settings)
    try:
        assert engine.model_name == "Qwen3-TTS-12Hz-1.7B-CustomVoice"
        assert engine.voices[0] == "vivian"
        assert len(engine.describe()["checkpoint_sha256"]) == 64
        ends = [
            finish(engine, SpeechRequest(f"r{i}", "Hello there.", "ryan", seed=3, max_new_tokens=5)) for i in range(2)
        ]
    finally:
        engine.stop()
    assert all(isinstance(end, Finished) and end.frames == 5 for end in ends)
    assert (ends[0].codes == ends[1].codes).all()


async def test_a_base_folder_clones_over_http(base_folder):
    settings = ServerSettings(checkpoint=str(base_folder), max_batch=2, max_seq_len=96, device="cpu", temperature=0.0)
    engine = build_engine(settings)
    noise = np.random.default_rng(1).uniform(-0.1, 0.1, 8000)  # 0.5 s at 16 kHz
    file = io.BytesIO()
    soundfile.write(file, noise, 16000, format="FLAC")
    reference = base64.b64encode(file.getvalue()).decode()
    body = {"input": "Hello there.", "seed": 3, "max_new_tokens": 3, "response_format": "pcm"}
    clone = {**body, "ref_audio": reference, "ref_text": "Hi.", "task_type": "Base", "language": "German"}
    client = TestClient(TestServer(create_app(engine)))
    await client.start_server()
    try:
        spoken, tokens = [], []
        for more in ({}, {"x_vector_only_mode": True}):
            response = await client.post("/v1/audio/speech", json={**clone, **more})
            assert response.status == 200, await response.text()
            spoken.append(await response.read())
            tokens.append(int(response.headers["x-input-tokens"]))
        refused = [
            (await (await client.post("/v1/audio/speech", json={**body, **wrong})).json())["error"]
            for wrong in ({}, {"task_type": "CustomVoice"}, {"language": "Welsh"})
        ]
    finally:
        await client.close()
        engine.stop()
    assert [len(pcm) for pcm in spoken] == [3 * 1920 * 2] * 2
    assert tokens[0] > tokens[1]  # the reference's text is part of the prompt, or not
    assert [error["param"] for error in refused] == ["ref_audio", "task_type", "language"]
    assert "needs a recording" in refused[0]["message"]
    assert "valid: Base" in refused[1]["message"] and "german" in refused[2]["message"]


def test_a_folder_tells_what_it_can_follow(folder, base_folder):
    found = []
    for path in (folder, base_folder):
        config = read_config(path)
        found.append(capabilities(config.text, config.talker.control))
    assert [can.clones for can in found] == [False, True]
    assert [can.follows_instructions for can in found] == [True, False]
    assert [can.task_types for can in found] == [("CustomVoice",), ("Base",)]
    assert {"auto", "english", "en", "german"} < set(found[0].languages)


def finish(engine, request):
    """The last event of a request."""
    events, done = [], threading.Event()

    def on_event(event):
        events.append(event)
        if isinstance(event, Finished) or not hasattr(event, "pcm"):
            done.set()

    engine.submit(request, on_event)
    assert done.wait(timeout=120)
    return events[-1]
