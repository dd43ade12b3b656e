"""Loading: the bundled files, and one error that names everything wrong with a broken folder."""

from __future__ import annotations

import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from omni_bench.errors import CheckpointError
from reference_impl.loading.checkpoint import load_model
from reference_impl.loading.released_config import read_config
from reference_impl.model.presets import PRESETS, TINY
from reference_impl.settings import BUNDLED


def load(folder):
    return load_model(folder, torch.device("cpu"), torch.float32, 512, 64)


@pytest.fixture
def copy(tmp_path):
    shutil.copytree(BUNDLED["tiny"], tmp_path / "tiny")
    return tmp_path / "tiny"


def test_bundled_files_are_small_float16_and_match_the_preset():
    files = list(BUNDLED["tiny"].rglob("*.safetensors"))
    assert sum(f.stat().st_size for f in files) <= 40e6
    assert all(t.dtype == torch.float16 for f in files for t in load_file(f).values() if t.is_floating_point())
    assert read_config(BUNDLED["tiny"]) == TINY == PRESETS["tiny"]


def test_every_parameter_is_filled(tiny):
    for module in (tiny.talker, tiny.predictor, tiny.code2wav):
        for name, parameter in module.named_parameters():
            assert torch.isfinite(parameter).all(), name
            assert parameter.abs().max() > 0, name


def test_fused_rows_keep_their_order(tiny):
    raw = load_file(BUNDLED["tiny"] / "model.safetensors")
    layer = tiny.talker.stack.layers[2]
    q, k, v = layer.qkv_proj.weight.split([256, 128, 128])
    for own, name in ((q, "q_proj"), (k, "k_proj"), (v, "v_proj")):
        assert torch.equal(own, raw[f"talker.model.layers.2.self_attn.{name}.weight"].float())
    gate, up = layer.gate_up_proj.weight.chunk(2)
    assert torch.equal(gate, raw["talker.model.layers.2.mlp.gate_proj.weight"].float())
    assert torch.equal(up, raw["talker.model.layers.2.mlp.up_proj.weight"].float())


def test_one_error_lists_missing_unexpected_and_misshapen(copy):
    path = copy / "model.safetensors"
    tensors = load_file(path)
    del tensors["talker.model.layers.1.self_attn.k_proj.weight"]
    tensors["talker.model.norm.weight"] = torch.ones(7)
    tensors["talker.surprise"] = torch.ones(2)
    save_file(tensors, path)
    with pytest.raises(CheckpointError) as caught:
        load(copy)
    message = str(caught.value)
    assert "missing (1):\n  talker.model.layers.1.self_attn.k_proj.weight" in message
    assert "unexpected (1):\n  talker.surprise" in message
    assert "talker.model.norm.weight (7,) do not give (320,)" in message


def test_codebooks_divide_the_sum_by_the_usage(copy, tiny):
    path = copy / "speech_tokenizer" / "model.safetensors"
    tensors = load_file(path)
    book = "decoder.quantizer.rvq_rest.vq.layers.3._codebook"
    tensors[f"{book}.embedding_sum"] = tensors[f"{book}.embedding_sum"].float() * 4
    tensors[f"{book}.cluster_usage"] = torch.full((512,), 4.0)
    save_file(tensors, path)
    assert torch.equal(load(copy).code2wav.quantizer.codebooks, tiny.code2wav.quantizer.codebooks)


def test_a_cut_file_is_one_clear_error(copy):
    path = copy / "speech_tokenizer" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(CheckpointError, match=r"speech_tokenizer/model\.safetensors: cannot be read"):
        load(copy)


def test_missing_config_or_weights(tmp_path, copy):
    with pytest.raises(CheckpointError, match=r"config\.json: no such file"):
        load(tmp_path)
    for path in copy.glob("*.safetensors"):
        path.unlink()
    with pytest.raises(CheckpointError, match=r"no \*\.safetensors"):
        load(copy)


@pytest.mark.parametrize("text", ["", "[]", '{"name": "x"}', "{", "null"])
def test_bad_config_json(copy, text):
    (copy / "config.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"config\.json"):
        load(copy)


def test_loading_draws_no_weights_and_asks_no_meta_tensor_for_memory(monkeypatch):
    """Either one loads PyTorch's compiler or SymPy, which takes longer than everything else of a start."""

    def unwanted(*args, **kwargs):
        raise AssertionError("seconds of imports")

    monkeypatch.setattr(torch.nn.Embedding, "reset_parameters", unwanted)
    monkeypatch.setattr(torch.nn.Module, "to_empty", unwanted)
    model = load(BUNDLED["tiny"])
    assert model.talker.codec_embedding.weight.device.type == "cpu"
    assert not any(tensor.requires_grad or tensor.is_meta for tensor in model.talker.parameters())
