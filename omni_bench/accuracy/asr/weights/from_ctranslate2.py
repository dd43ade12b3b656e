"""OpenAI's Whisper weights out of a CTranslate2 file, into openai-whisper's own model.

CTranslate2's converter fuses the projections of an attention block (query, key and value of
self-attention; key and value of cross-attention) into one matrix and gives Whisper's key
projection, which has no bias, a bias of zeros. Undoing that is exact: no number changes but
for the float16 to float32 widening, which is lossless.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from whisper.model import ModelDimensions, Whisper

from omni_bench.accuracy.asr.weights.files import ConcatenatedFiles, verify_sha256
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


# ---- Reader of CTranslate2's ``model.bin`` ----

BINARY_VERSION = 6
# CTranslate2's DataType numbers. 5 is bfloat16, which numpy does not have.
DTYPES = {0: "<f4", 1: "<i1", 2: "<i2", 3: "<i4", 4: "<f2"}

_MAX_VARIABLES = 20_000
_MAX_RANK = 8
_MAX_NAME_BYTES = 512


@dataclass(frozen=True)
class Ct2Model:
    """One ``model.bin``: ``variables`` maps a name to its array (aliases share the array)."""

    spec_name: str
    revision: int
    variables: dict[str, np.ndarray]


def read_model(stream: BinaryIO, size_bytes: int, label: str) -> Ct2Model:
    """Read a whole ``model.bin`` of ``size_bytes`` bytes from ``stream``.

    Every length is checked against what is left of the file before anything of that length is
    read. ``label`` names the file in messages. Raises :class:`AccuracyError` for another
    version, a truncated or overlong file, an unknown data type, a byte count that does not
    match the shape, a repeated name, or an alias without a target.
    """
    reader = _Reader(stream, size_bytes, label)
    version = reader.unsigned(4, "version")
    if version != BINARY_VERSION:
        raise reader.error(f"binary version {version}, can read only version {BINARY_VERSION}")
    spec_name = reader.string("spec name")
    revision = reader.unsigned(4, "revision")
    variables: dict[str, np.ndarray] = {}
    for index in range(reader.count("variables")):
        name = reader.string(f"name of variable {index}")
        if name in variables:
            raise reader.error(f"variable {name!r} appears twice")
        variables[name] = _read_array(reader, name)
    for index in range(reader.count("aliases")):
        alias = reader.string(f"alias {index}")
        target = reader.string(f"target of alias {index}")
        if alias in variables:
            raise reader.error(f"alias {alias!r} has the name of another variable")
        if target not in variables:
            raise reader.error(f"alias {alias!r} stands for {target!r}, which is not in the file")
        variables[alias] = variables[target]
    if reader.left_bytes:
        raise reader.error(f"{reader.left_bytes} bytes are left after the last alias")
    return Ct2Model(spec_name=spec_name, revision=revision, variables=variables)


def _read_array(reader: _Reader, name: str) -> np.ndarray:
    rank = reader.unsigned(1, f"rank of {name}")
    if rank > _MAX_RANK:
        raise reader.error(f"variable {name!r} has rank {rank}, at most {_MAX_RANK} is allowed")
    shape = tuple(reader.unsigned(4, f"dimension of {name}") for _ in range(rank))
    type_id = reader.unsigned(1, f"data type of {name}")
    if type_id not in DTYPES:
        raise reader.error(f"variable {name!r} has data type {type_id}, valid are {sorted(DTYPES)}")
    dtype = np.dtype(DTYPES[type_id])
    stored_bytes = reader.unsigned(4, f"byte count of {name}")
    # Python integers do not overflow, so four huge dimensions cannot wrap round to a small product.
    expected_bytes = math.prod(shape) * dtype.itemsize
    if stored_bytes != expected_bytes:
        raise reader.error(
            f"variable {name!r} of shape {list(shape)} and type {dtype.name} "
            f"needs {expected_bytes} bytes, the file says {stored_bytes}"
        )
    # A bytearray, so that the array is writable: torch shares memory only with such arrays.
    data = bytearray(reader.take(stored_bytes, f"data of {name}"))
    return np.frombuffer(data, dtype=dtype).reshape(shape)


class _Reader:
    """Takes bytes off a stream, never more than the file is known to hold."""

    def __init__(self, stream: BinaryIO, size_bytes: int, label: str) -> None:
        self._stream = stream
        self._label = label
        self.left_bytes = size_bytes

    def error(self, what: str) -> AccuracyError:
        return AccuracyError(f"{self._label} is not a CTranslate2 model that can be read: {what}")

    def take(self, count: int, what: str) -> bytes:
        if count > self.left_bytes:
            raise self.error(f"{what} needs {count} bytes, {self.left_bytes} are left")
        data = self._stream.read(count)
        if len(data) != count:
            raise self.error(f"{what} needs {count} bytes, the file ended after {len(data)}")
        self.left_bytes -= count
        return data

    def unsigned(self, width_bytes: int, what: str) -> int:
        return int.from_bytes(self.take(width_bytes, what), "little")

    def count(self, what: str) -> int:
        count = self.unsigned(4, f"count of {what}")
        if count > _MAX_VARIABLES:
            raise self.error(f"{count} {what}, at most {_MAX_VARIABLES} are allowed")
        return count

    def string(self, what: str) -> str:
        length = self.unsigned(2, f"length of the {what}")
        if not 1 <= length <= _MAX_NAME_BYTES:
            raise self.error(f"{what} has {length} bytes, 1 to {_MAX_NAME_BYTES} are allowed")
        data = self.take(length, what)
        if data[-1] != 0 or not data.isascii() or 0 in data[:-1]:
            raise self.error(f"{what} is not an ASCII string that ends with one NUL: {data[:40]!r}")
        return data[:-1].decode("ascii")
