"""OpenAI's weights recovered from CTranslate2 files, tensor by tensor."""

import hashlib
import io

import numpy as np
import pytest
import torch

from omni_bench.accuracy.asr.weights.from_ctranslate2 import (
    Ct2Model,
    build_whisper,
    load_ctranslate2_whisper,
    read_model,
)
from omni_bench.accuracy.asr.weights.packages import WEIGHT_PACKAGES, find_installed_weights
from omni_bench.errors import AccuracyError


def ct2_variables(model) -> dict[str, np.ndarray]:
    """A Whisper's weights under CTranslate2's names, fused as its converter fuses them."""
    state = {name: tensor.numpy().astype(np.float16) for name, tensor in model.state_dict().items()}
    variables = {
        "encoder/num_heads": np.int16(model.dims.n_audio_head),
        "decoder/num_heads": np.int16(model.dims.n_text_head),
        "decoder/alibi": np.int8(0),
        "decoder/pre_norm": np.int8(1),
        "decoder/scale_embeddings": np.int8(0),
        "decoder/start_from_zero_embedding": np.int8(0),
        "decoder/activation": np.int8(1),
        "decoder/alignment_heads": np.int16(1),
        "encoder/position_encodings/encodings": state["encoder.positional_embedding"],
        "decoder/position_encodings/encodings": state["decoder.positional_embedding"],
        "decoder/embeddings/weight": state["decoder.token_embedding.weight"],
    }

    def copy(target, source, names=(("weight", "weight"), ("bias", "bias"))):
        for ct2_name, name in names:
            variables[f"{target}/{ct2_name}"] = state[f"{source}.{name}"]

    def fuse(target, source, parts):
        zero = np.zeros(state[f"{source}.key.weight"].shape[0], dtype=np.float16)
        variables[f"{target}/weight"] = np.concatenate([state[f"{source}.{part}.weight"] for part in parts])
        variables[f"{target}/bias"] = np.concatenate([state.get(f"{source}.{part}.bias", zero) for part in parts])

    norm = (("gamma", "weight"), ("beta", "bias"))
    copy("encoder/conv1", "encoder.conv1")
    copy("encoder/conv2", "encoder.conv2")
    copy("encoder/layer_norm", "encoder.ln_post", norm)
    copy("decoder/layer_norm", "decoder.ln", norm)
    for side, layers in (("encoder", model.dims.n_audio_layer), ("decoder", model.dims.n_text_layer)):
        for index in range(layers):
            layer, block = f"{side}/layer_{index}", f"{side}.blocks.{index}"
            copy(f"{layer}/self_attention/layer_norm", f"{block}.attn_ln", norm)
            fuse(f"{layer}/self_attention/linear_0", f"{block}.attn", ("query", "key", "value"))
            copy(f"{layer}/self_attention/linear_1", f"{block}.attn.out")
            if side == "decoder":
                copy(f"{layer}/attention/layer_norm", f"{block}.cross_attn_ln", norm)
                copy(f"{layer}/attention/linear_0", f"{block}.cross_attn.query")
                fuse(f"{layer}/attention/linear_1", f"{block}.cross_attn", ("key", "value"))
                copy(f"{layer}/attention/linear_2", f"{block}.cross_attn.out")
            copy(f"{layer}/ffn/layer_norm", f"{block}.mlp_ln", norm)
            copy(f"{layer}/ffn/linear_0", f"{block}.mlp.0")
            copy(f"{layer}/ffn/linear_1", f"{block}.mlp.2")
    return variables


def build(variables, spec_name="WhisperSpec"):
    return build_whisper(Ct2Model(spec_name, 3, variables), "model.bin")


@pytest.fixture
def variables(small_whisper):
    return ct2_variables(small_whisper)


def test_every_tensor_comes_back_under_its_own_name(small_whisper, variables, ct2_bytes):
    data = ct2_bytes(variables, [("decoder/projection/weight", "decoder/embeddings/weight")])
    built = build_whisper(read_model(io.BytesIO(data), len(data), "model.bin"), "model.bin")
    assert built.dims == small_whisper.dims
    wanted = small_whisper.state_dict()
    assert built.state_dict().keys() == wanted.keys()
    for name, tensor in built.state_dict().items():
        assert tensor.dtype == torch.float32
        assert torch.equal(tensor, wanted[name].half().float()), name


def test_a_key_bias_other_than_zero_is_refused(variables):
    variables["decoder/layer_0/attention/linear_1/bias"][3] = 0.5  # the first 64 are the key's
    with pytest.raises(AccuracyError, match="key bias other than zero"):
        build(variables)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("encoder/layer_1/ffn/linear_0/bias", None, "no variable 'encoder/layer_1/ffn/linear_0/bias'"),
        ("encoder/conv1/weight", None, "'encoder/conv1/weight' should have rank 3, found no such variable"),
        ("encoder/conv1/weight", np.zeros(3, np.float16), r"rank 3, found shape \[3\]"),
        ("decoder/scale_embeddings", np.int8(1), "'decoder/scale_embeddings' is 1, Whisper needs 0"),
        ("decoder/num_heads", np.int16(2), "2 decoder heads over 64 channels"),
        ("decoder/num_heads", np.zeros(2, np.int16), "should be one integer"),
        ("encoder/layer_5/ffn/linear_0/bias", np.zeros(1, np.float16), r"layers are \[0, 1, 5\]"),
        ("decoder/layer_0/extra", np.zeros(1, np.float16), "variables that Whisper lacks.*extra"),
        ("decoder/layer_0/self_attention/linear_0/weight", np.zeros((100, 64), np.float16), "3 fused projections"),
        ("decoder/layer_norm/beta", np.zeros(3, np.float16), "does not fit Whisper's model"),
    ],
)
def test_wrong_tensors_are_named(variables, name, value, message):
    variables.pop(name, None)
    if value is not None:
        variables[name] = value
    with pytest.raises(AccuracyError, match=message):
        build(variables)


def test_another_kind_of_model_is_refused(variables):
    with pytest.raises(AccuracyError, match="holds a 'TransformerSpec'"):
        build(variables, spec_name="TransformerSpec")


def test_a_file_of_another_hash_is_refused_before_it_is_parsed(tmp_path):
    path = tmp_path / "model.bin"
    path.write_bytes(b"not a model")
    expected, _ = WEIGHT_PACKAGES["tiny.en"]
    with pytest.raises(AccuracyError, match=rf"{hashlib.sha256(b'not a model').hexdigest()}.*{expected}"):
        load_ctranslate2_whisper([path], expected)


@pytest.mark.parametrize(("judge", "vocabulary", "layers"), [("tiny.en", 51864, 4), ("base", 51865, 6)])
def test_the_packaged_weights_are_a_whole_whisper(judge, vocabulary, layers):
    installed = find_installed_weights(judge)
    if installed is None:
        pytest.skip(f"no package with {judge} is installed")
    model = load_ctranslate2_whisper(installed.paths, installed.sha256)
    assert (model.dims.n_vocab, model.dims.n_audio_layer, model.dims.n_text_layer) == (vocabulary, layers, layers)
    # OpenAI's encoder positions are sinusoids, which a fresh model computes for itself.
    fresh = type(model)(model.dims).encoder.positional_embedding
    torch.testing.assert_close(model.encoder.positional_embedding, fresh, atol=1e-3, rtol=0)
    assert all(bool(torch.isfinite(tensor).all()) for tensor in model.state_dict().values())
