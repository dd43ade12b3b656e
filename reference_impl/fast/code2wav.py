"""Code2Wav's push with its decoder (50 Hz to 24 kHz, 95 % of the arithmetic) in kernels of our own.

Dequantisation, transformer and the first two upsampling stages stay PyTorch's. The decoder
keeps another state than :class:`reference_impl.code2wav.Code2Wav` does: inputs of
convolutions only, channels last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from reference_impl.code2wav import Code2Wav
from reference_impl.code2wav_layers import SnakeBeta
from reference_impl.fast.convolution import Convolution, exchange

DECODER = ("input_conv", "blocks", "output_conv")


@dataclass(frozen=True)
class Stage:
    """One convolution of the decoder and the activation behind it (None: samples).

    ``adds``: the residual is added; ``begins``: the result is the next residual.
    """

    conv: Convolution
    act: SnakeBeta | None
    adds: bool = False
    begins: bool = False


def decoder_stages(model: Code2Wav) -> Iterator[Stage]:
    """The decoder as a chain of convolutions; an activation between blocks belongs to what is before it."""
    yield Stage(Convolution.of(model.input_conv.conv), model.blocks[0].act)
    for index, block in enumerate(model.blocks):
        behind = model.blocks[index + 1].act if index + 1 < len(model.blocks) else model.output_act
        acts = [*(unit.act1 for unit in block.units), behind]
        yield Stage(Convolution.of_transposed(block.transposed.conv), acts[0], begins=True)
        for number, unit in enumerate(block.units, start=1):
            yield Stage(Convolution.of(unit.conv1.conv), unit.act2)
            yield Stage(Convolution.of(unit.conv2.conv), acts[number], adds=True, begins=number < len(block.units))
    yield Stage(Convolution.of(model.output_conv.conv), None)


class FastCode2Wav:
    """The streams of ``slots`` callers; a call takes at most ``samples`` samples of all its streams together."""

    def __init__(self, code2wav: Code2Wav, slots: int, samples: int):
        self._code2wav = code2wav
        self.state = code2wav.new_state(slots)
        for name in [name for name in self.state.tensors if name.startswith(DECODER)]:
            del self.state.tensors[name]
        self._stages = list(decoder_stages(code2wav))
        self._histories: list[Tensor | None] = []
        like = code2wav.input_conv.conv.weight
        for index, stage in enumerate(self._stages):
            history = like.new_zeros(slots, stage.conv.history, stage.conv.weight.shape[1])
            self._histories.append(history if stage.conv.history else None)
            if stage.conv.history:
                self.state.tensors[f"decoder.{index}"] = history  # so that a reset of the stream reaches it
        self._pcm = torch.zeros(samples, dtype=torch.int16, device=like.device)

    def push(self, codes: Tensor, rows: Tensor) -> Tensor:
        """The next frames of the streams ``rows`` [B]: codes [B, 16, T] -> int16 [B, 1920 × T].

        The result is overwritten by the next call.
        """
        model, state = self._code2wav, self.state
        state.rows = rows
        x = model.quantizer(codes).transpose(1, 2)
        x = model.pre_conv(x, state).transpose(1, 2)
        x = model.transformer(x, state).transpose(1, 2)
        for stage in model.upsample:
            x = stage(x, state)
        state.frames[rows] += codes.shape[-1]

        streams, _, steps = x.shape
        first = self._stages[0].conv
        buffer = x.new_empty(streams, first.history + steps, x.shape[1])
        buffer[:, first.history :] = x.transpose(1, 2)
        residual = None
        for stage, behind, history in zip(self._stages, [*self._stages[1:], None], self._histories, strict=True):
            if history is not None:
                exchange(buffer, history, rows, streams, steps)
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
