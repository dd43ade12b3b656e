"""Code2Wav's push in kernels of our own and plain matrix products.

While a step of the talker runs, every kernel of Code2Wav waits for a place on the card: what
counts beside their work is how many there are. So the transformer has ten a layer, an
upsampling stage seven, and a convolution of the decoder (50 Hz to 24 kHz, 95 % of the
arithmetic) two. All of it keeps another state than :class:`reference_impl.model.code2wav.Code2Wav`
does: inputs of convolutions only, channels last.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from reference_impl.engine.cuda.convolution import Convolution, depthwise, exchange
from reference_impl.engine.cuda.gating import gate
from reference_impl.engine.cuda.window import window_attention
from reference_impl.model.code2wav import Code2Wav, SplitQuantizer, UpsampleStage
from reference_impl.model.code2wav_layers import SnakeBeta, WindowLayer, WindowTransformer

ALIGNED = 8  # numbers of 16 bits


@dataclass(frozen=True)
class Stage:
    """One convolution of the decoder and the activation after it (None: samples).

    ``adds``: the residual is added; ``begins``: the result is the next residual.
    """

    conv: Convolution
    act: SnakeBeta | None
    adds: bool = False
    begins: bool = False


def decoder_stages(model: Code2Wav) -> Iterator[Stage]:
    """The decoder as a chain of convolutions; an activation between blocks belongs to the one before it."""
    yield Stage(Convolution.of(model.input_conv.conv), model.blocks[0].act)
    for index, block in enumerate(model.blocks):
        behind = model.blocks[index + 1].act if index + 1 < len(model.blocks) else model.output_act
        acts = [*(unit.act1 for unit in block.units), behind]
        yield Stage(Convolution.of_transposed(block.transposed.conv), acts[0], begins=True)
        for number, unit in enumerate(block.units, start=1):
            yield Stage(Convolution.of(unit.conv1.conv), unit.act2)
            yield Stage(Convolution.of(unit.conv2.conv), acts[number], adds=True, begins=number < len(block.units))
    yield Stage(Convolution.of(model.output_conv.conv), None)


class FastQuantizer:
    """Codes to vectors with the two projections as one product."""

    def __init__(self, quantizer: SplitQuantizer):
        codebooks = quantizer.codebooks
        groups, self._size, _ = codebooks.shape
        self._first, self._rest = codebooks[0], codebooks[1:].flatten(0, 1)
        self._weight = torch.cat([quantizer.first_proj.weight, quantizer.rest_proj.weight], dim=1)
        self._offsets = torch.arange(groups - 1, device=codebooks.device) * self._size

    def __call__(self, codes: Tensor) -> Tensor:
        """codes [B, 16, T] -> [B, T, codebook_dim]."""
        batch, groups, length = codes.shape
        codes = codes.transpose(1, 2)
        flat = (codes[..., 1:] + self._offsets).reshape(batch * length, groups - 1)
        rest = F.embedding_bag(flat, self._rest, mode="sum").view(batch, length, -1)
        return F.linear(torch.cat([self._first[codes[..., 0]], rest], dim=-1), self._weight)


class FastTransformer:
    """The window layers; ``histories``: the keys and values of every slot, a tensor a layer."""

    def __init__(self, transformer: WindowTransformer, histories: list[Tensor]):
        self._transformer, self._histories = transformer, histories
        self._table = transformer.rotary.table

    def __call__(self, x: Tensor, slots: Tensor, lengths: Tensor, frames: Tensor) -> Tensor:
        """[B, T, latent] -> [B, T, latent]; lengths [B] of the T that count; frames [all slots] heard before."""
        transformer = self._transformer
        x = transformer.input_proj(x)
        for layer, history in zip(transformer.layers, self._histories, strict=True):
            x = self._through(layer, history, x, slots, lengths, frames)
        return transformer.output_proj(_norm(transformer.norm, x))

    def _through(
        self, layer: WindowLayer, history: Tensor, x: Tensor, slots: Tensor, lengths: Tensor, frames: Tensor
    ) -> Tensor:
        qkv = layer.qkv_proj(_norm(layer.input_layernorm, x))
        out = qkv.new_empty(*x.shape[:2], layer.heads * layer.head_dim)
        window_attention(qkv, self._table, history, slots, lengths, frames, out, x.shape[1])
        x = torch.addcmul(x, layer.attention_scale, layer.o_proj(out))
        gated = gate(layer.gate_up_proj(_norm(layer.post_attention_layernorm, x)))
        return torch.addcmul(x, layer.mlp_scale, layer.down_proj(gated))


def _norm(norm: torch.nn.Module, x: Tensor) -> Tensor:
    """RMSNorm in one kernel, rounded once (the module takes six in bfloat16)."""
    return F.rms_norm(x, x.shape[-1:], norm.weight, norm.eps)


class FastUpsample:
    """Transposed convolution without overlap, which is a product, and a ConvNeXt block after it."""

    def __init__(self, stage: UpsampleStage, history: Tensor):
        weight = stage.transposed.conv.weight  # [inputs, outputs, ratio]
        self._ratio, self._block, self._history = weight.shape[2], stage.block, history
        self._weight = weight.permute(2, 1, 0).flatten(0, 1).contiguous()
        self._bias = stage.transposed.conv.bias.repeat(self._ratio)
        self._taps = stage.block.dwconv.conv.weight[:, 0].T.contiguous()

    def __call__(self, x: Tensor, slots: Tensor, lengths: Tensor, frames: int) -> Tensor:
        """[B, T, C] -> [B, ratio × T, C]; lengths [B]: how many of the ``frames`` that T is count."""
        batch, length, channels = x.shape
        x = F.linear(x, self._weight, self._bias).view(batch, length * self._ratio, channels)
        block = self._block
        y = depthwise(x, self._taps, block.dwconv.conv.bias, self._history, slots, lengths, frames)
        y = block.pwconv2(F.gelu(block.pwconv1(block.norm(y))))
        return torch.addcmul(x, block.gamma, y)


class FastCode2Wav:
    """The streams of ``slots`` callers; a call takes at most ``samples`` samples of all its streams together."""

    def __init__(self, code2wav: Code2Wav, slots: int, samples: int):
        like = code2wav.input_conv.conv.weight
        layers = code2wav.transformer.layers
        depthwise_convs = [stage.block.dwconv for stage in code2wav.upsample]
        self._pre_conv, self._stages = Convolution.of(code2wav.pre_conv.conv), list(decoder_stages(code2wav))
        convs = [self._pre_conv, *(stage.conv for stage in self._stages)]
        shapes = [
            *(layer.state_shape() for layer in layers),
            *((conv.history, conv.conv.in_channels) for conv in depthwise_convs),
            *((conv.history, conv.weight.shape[1]) for conv in convs),
        ]
        self._all_histories, histories = _in_one(like, slots, shapes)
        self._frames = torch.zeros(slots, dtype=torch.long, device=like.device)
        of_layers, of_upsample = histories[: len(layers)], histories[len(layers) : -len(convs)]
        self._pre_history, *self._histories = histories[-len(convs) :]
        self._quantizer = FastQuantizer(code2wav.quantizer)
        self._transformer = FastTransformer(code2wav.transformer, of_layers)
        self._upsample = [FastUpsample(*pair) for pair in zip(code2wav.upsample, of_upsample, strict=True)]
        self._pcm = torch.zeros(samples, dtype=torch.int16, device=like.device)

    def reset(self, rows: Tensor) -> None:
        """Forget everything of the streams ``rows``."""
        self._all_histories.index_fill_(0, rows, 0)
        self._frames.index_fill_(0, rows, 0)

    def push(self, codes: Tensor, rows: Tensor, lengths: Tensor) -> Tensor:
        """The next frames of the streams ``rows`` [B]: codes [B, 16, T] -> int16 [B, 1920 × T].

        Of each stream the first ``lengths`` [B] frames count: it continues after them, and what the others
        sound like does not matter. The result is overwritten by the next call.
        """
        frames = codes.shape[-1]
        x = self._before(self._quantizer(codes), rows, lengths)
        x = self._transformer(x, rows, lengths, self._frames)
        self._frames.index_add_(0, rows, lengths)
        for stage in self._upsample:
            x = stage(x, rows, lengths, frames)

        streams, steps, _ = x.shape
        buffer = _behind_history(x, self._stages[0].conv.history)
        residual = None
        for stage, behind, history in zip(self._stages, [*self._stages[1:], None], self._histories, strict=True):
            if stage.conv.history:
                exchange(buffer, history, rows, lengths, streams, steps, frames)
            conv, width = stage.conv, stage.conv.weight.shape[2] // stage.conv.up
            if behind is None:
                conv.run(buffer, streams, steps, activated=self._pcm, wave=True)
                continue
            raw = x.new_empty(streams, steps * conv.up, width) if stage.begins else None
            out = x.new_empty(streams, behind.conv.history + steps * conv.up, width)
            conv.run(
                buffer, streams, steps, residual=residual if stage.adds else None, raw=raw, act=stage.act,
                activated=out, next_history=behind.conv.history,
            )  # fmt: skip
            buffer, steps = out, steps * conv.up
            residual = raw if stage.begins else residual
        return self._pcm[: streams * steps].view(streams, steps)

    def _before(self, x: Tensor, rows: Tensor, lengths: Tensor) -> Tensor:
        """The convolution in front of the transformer."""
        conv, (streams, steps, _) = self._pre_conv, x.shape
        buffer = _behind_history(x, conv.history)
        exchange(buffer, self._pre_history, rows, lengths, streams, steps, steps)
        out = x.new_empty(streams, steps, conv.weight.shape[2])
        conv.run(buffer, streams, steps, raw=out)
        return out


def _behind_history(x: Tensor, history: int) -> Tensor:
    """[streams, steps, C] -> a buffer [streams, history + steps, C] whose first rows are not yet filled."""
    buffer = x.new_empty(x.shape[0], history + x.shape[1], x.shape[2])
    buffer[:, history:] = x
    return buffer


def _in_one(like: Tensor, slots: int, shapes: list[tuple[int, ...]]) -> tuple[Tensor, list[Tensor]]:
    """Zeros [slots, all of them], and views [slots, *shape] of it, each beginning at a multiple of 16 bytes."""
    sizes = [-(-math.prod(shape) // ALIGNED) * ALIGNED for shape in shapes]
    whole = like.new_zeros(slots, sum(sizes))
    parts = whole.split(sizes, dim=1)
    return whole, [part[:, : math.prod(shape)].view(slots, *shape) for part, shape in zip(parts, shapes, strict=True)]
