"""OpenAI's Whisper weights out of a CTranslate2 file, into openai-whisper's own model.

CTranslate2's converter fuses the projections of an attention block (query, key and value of
self-attention; key and value of cross-attention) into one matrix and gives Whisper's key
projection, which has no bias, a bias of zeros. Undoing that is exact: no number changes but
for the float16 to float32 widening, which is lossless.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from whisper.model import ModelDimensions, Whisper

from omni_bench.accuracy.ctranslate2 import Ct2Model, read_model
from omni_bench.accuracy.weight_files import ConcatenatedFiles, verify_sha256
from omni_bench.errors import AccuracyError

SPEC_NAME = "WhisperSpec"
_HEAD_WIDTH = 64  # of every Whisper size (Radford et al. 2022, table 1)
# Variables that describe the computation instead of holding weights, and the values that
# Whisper's computation has.
_REQUIRED_FLAGS = {
    "decoder/alibi": 0,
    "decoder/pre_norm": 1,
    "decoder/scale_embeddings": 0,
    "decoder/start_from_zero_embedding": 0,
}
# Without meaning here: settings of a bias that is off, heads for word timestamps, and the output
# projection, which is the token embedding under another name.
_IGNORED = frozenset(
    {
        "decoder/activation",
        "decoder/alibi_use_positive_positions",
        "decoder/alignment_heads",
        "decoder/alignment_layer",
        "decoder/projection/weight",
        "decoder/scale_alibi",
    }
)


def load_ctranslate2_whisper(paths: Sequence[Path], expected_sha256: str) -> Whisper:
    """Read (the parts of) a ``model.bin`` into a float32 Whisper on the CPU, in eval mode.

    Raises AccuracyError for another hash, an unreadable file or tensors that are not Whisper's.
    """
    verify_sha256(paths, expected_sha256, "Reinstall the package that brought it.")
    label = " + ".join(path.name for path in paths)
    size_bytes = sum(path.stat().st_size for path in paths)
    with io.BufferedReader(ConcatenatedFiles(paths), buffer_size=1 << 20) as stream:
        model = read_model(stream, size_bytes, label)
    return build_whisper(model, label)


def build_whisper(model: Ct2Model, label: str) -> Whisper:
    """openai-whisper's model with the weights of ``model``; ``label`` names them in messages.

    Raises AccuracyError if a tensor is missing, misshapen or left over, if a key bias is not
    zero, or if a flag asks for another computation than Whisper's.
    """
    if model.spec_name != SPEC_NAME:
        raise AccuracyError(f"{label} holds a {model.spec_name!r}, expected {SPEC_NAME!r}")
    mapping = _Mapping(model.variables, label)
    dims = mapping.dimensions()
    state = mapping.state_dict(dims)
    whisper_model = Whisper(dims)
    try:
        # Copies each float16 tensor into its float32 parameter, so that no third copy is held.
        whisper_model.load_state_dict(state, strict=True)
    except RuntimeError as error:
        raise AccuracyError(f"{label} does not fit Whisper's model of {dims}: {error}") from error
    return whisper_model.eval()


class _Mapping:
    """Takes each CTranslate2 variable once and hands it on under Whisper's name."""

    def __init__(self, variables: dict[str, np.ndarray], label: str) -> None:
        self._left = dict(variables)
        self._label = label

    def _take(self, name: str) -> np.ndarray:
        try:
            return self._left.pop(name)
        except KeyError:
            raise AccuracyError(f"{self._label} has no variable {name!r}") from None

    def _scalar(self, name: str) -> int:
        value = self._take(name)
        if value.ndim != 0 or value.dtype.kind != "i":
            raise AccuracyError(f"{self._label}: {name!r} should be one integer, found shape {list(value.shape)}")
        return int(value)

    def _shape(self, name: str, rank: int) -> tuple[int, ...]:
        variable = self._left.get(name)
        if variable is None or variable.ndim != rank:
            found = "no such variable" if variable is None else f"shape {list(variable.shape)}"
            raise AccuracyError(f"{self._label}: {name!r} should have rank {rank}, found {found}")
        return variable.shape

    def _layers(self, side: str) -> int:
        pattern = re.compile(rf"{side}/layer_(\d+)/")
        found = {int(match[1]) for name in self._left if (match := pattern.match(name))}
        if found != set(range(len(found))) or not found:
            raise AccuracyError(f"{self._label}: the {side} layers are {sorted(found)}, expected 0 to n without gaps")
        return len(found)

    def dimensions(self) -> ModelDimensions:
        n_audio_state, n_mels, _ = self._shape("encoder/conv1/weight", 3)
        n_audio_ctx, _ = self._shape("encoder/position_encodings/encodings", 2)
        n_vocab, n_text_state = self._shape("decoder/embeddings/weight", 2)
        n_text_ctx, _ = self._shape("decoder/position_encodings/encodings", 2)
        heads = {}
        for side, state in (("encoder", n_audio_state), ("decoder", n_text_state)):
            heads[side] = self._scalar(f"{side}/num_heads")
            if heads[side] * _HEAD_WIDTH != state:
                raise AccuracyError(
                    f"{self._label}: {heads[side]} {side} heads over {state} channels, "
                    f"expected heads of {_HEAD_WIDTH} channels"
                )
        return ModelDimensions(
            n_mels=n_mels,
            n_audio_ctx=n_audio_ctx,
            n_audio_state=n_audio_state,
            n_audio_head=heads["encoder"],
            n_audio_layer=self._layers("encoder"),
            n_vocab=n_vocab,
            n_text_ctx=n_text_ctx,
            n_text_state=n_text_state,
            n_text_head=heads["decoder"],
            n_text_layer=self._layers("decoder"),
        )

    def state_dict(self, dims: ModelDimensions) -> dict[str, torch.Tensor]:
        for name, value in _REQUIRED_FLAGS.items():
            found = self._scalar(name)
            if found != value:
                raise AccuracyError(f"{self._label}: flag {name!r} is {found}, Whisper needs {value}")
        state: dict[str, np.ndarray] = {
            "encoder.positional_embedding": self._take("encoder/position_encodings/encodings"),
            "decoder.positional_embedding": self._take("decoder/position_encodings/encodings"),
            "decoder.token_embedding.weight": self._take("decoder/embeddings/weight"),
        }
        for conv in ("conv1", "conv2"):
            for part in ("weight", "bias"):
                state[f"encoder.{conv}.{part}"] = self._take(f"encoder/{conv}/{part}")
        self._norm(state, "encoder/layer_norm", "encoder.ln_post")
        self._norm(state, "decoder/layer_norm", "decoder.ln")
        for side, layers in (("encoder", dims.n_audio_layer), ("decoder", dims.n_text_layer)):
            for index in range(layers):
                source, target = f"{side}/layer_{index}", f"{side}.blocks.{index}"
                self._block(state, source, target, cross_attention=side == "decoder")
        left = sorted(set(self._left) - _IGNORED)
        if left:
            raise AccuracyError(f"{self._label} has {len(left)} variables that Whisper lacks, such as {left[:3]}")
        return {name: torch.from_numpy(array) for name, array in state.items()}

    def _block(self, state: dict, source: str, target: str, *, cross_attention: bool) -> None:
        attention = f"{source}/self_attention"
        self._norm(state, f"{attention}/layer_norm", f"{target}.attn_ln")
        self._fused(state, f"{attention}/linear_0", f"{target}.attn", ("query", "key", "value"))
        self._linear(state, f"{attention}/linear_1", f"{target}.attn.out")
        if cross_attention:
            attention = f"{source}/attention"
            self._norm(state, f"{attention}/layer_norm", f"{target}.cross_attn_ln")
            self._linear(state, f"{attention}/linear_0", f"{target}.cross_attn.query")
            self._fused(state, f"{attention}/linear_1", f"{target}.cross_attn", ("key", "value"))
            self._linear(state, f"{attention}/linear_2", f"{target}.cross_attn.out")
        self._norm(state, f"{source}/ffn/layer_norm", f"{target}.mlp_ln")
        self._linear(state, f"{source}/ffn/linear_0", f"{target}.mlp.0")
        self._linear(state, f"{source}/ffn/linear_1", f"{target}.mlp.2")

    def _norm(self, state: dict, source: str, target: str) -> None:
        state[f"{target}.weight"] = self._take(f"{source}/gamma")
        state[f"{target}.bias"] = self._take(f"{source}/beta")

    def _linear(self, state: dict, source: str, target: str) -> None:
        state[f"{target}.weight"] = self._take(f"{source}/weight")
        state[f"{target}.bias"] = self._take(f"{source}/bias")

    def _fused(self, state: dict, source: str, target: str, parts: tuple[str, ...]) -> None:
        """Split [parts * n, n] rows in order. Raises AccuracyError if the rows do not divide."""
        weight, bias = self._take(f"{source}/weight"), self._take(f"{source}/bias")
        if weight.ndim != 2 or weight.shape[0] != len(parts) * weight.shape[1] or bias.shape != weight.shape[:1]:
            raise AccuracyError(
                f"{self._label}: {source} has shapes {list(weight.shape)} and {list(bias.shape)}, "
                f"which are not those of {len(parts)} fused projections"
            )
        for part, rows, offsets in zip(parts, np.split(weight, len(parts)), np.split(bias, len(parts)), strict=True):
            state[f"{target}.{part}.weight"] = rows
            if part != "key":
                state[f"{target}.{part}.bias"] = offsets
            elif np.any(offsets):
                raise AccuracyError(f"{self._label}: {source} has a key bias other than zero, Whisper has none")
