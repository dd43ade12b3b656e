"""The decode step on a GPU: one frame for every slot, all of it on the device, in one CUDA graph a batch size.

:meth:`FullStep.run` is the frame: 15 passes through the code predictor, each ending in a draw,
then the sum of the 16 embeddings, one pass through the talker, and the draw of codebook 0.
Nothing in it waits for the host, so it is captured once for each of a few batch sizes and
replayed. Slots after the taken ones are computed and ignored; they stay at position 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import triton
from torch import Tensor

from reference_impl.engine.cuda.attention import frame_attention, slot_attention
from reference_impl.engine.cuda.drawing import (
    FastDraw,
    begin_frame_kernel,
    draw_first_kernel,
    draw_rest_kernel,
    embed_frame_kernel,
    end_frame_kernel,
    key_bits,
)
from reference_impl.engine.cuda.linear import Tile, linear
from reference_impl.engine.cuda.tiles import tile_for
from reference_impl.loading.checkpoint import Model
from reference_impl.model.kv_cache import SlotCache
from reference_impl.model.layers import DecoderLayer, TransformerStack

Attend = Callable[[int, DecoderLayer], None]
TileFor = Callable[[int, int, int, bool], Tile]
GRAPH_ROWS = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True)
class SlotState:
    """The tensors of a :class:`reference_impl.engine.decode_batch.DecodeBatch` that a step reads and writes in place.

    ``counters`` int64 [7, slots]: code0, length, position, frame, segment_frame, min_frames,
    trailing_length. ``active`` int64 [slots]: 1 for taken slots. ``seen`` and ``trailing`` as there.
    """

    hidden: Tensor
    uniforms: Tensor
    counters: Tensor
    active: Tensor
    seen: Tensor | None
    trailing: Tensor | None


class Buffers:
    """What one pass through a stack leaves between its kernels; ``rows`` tokens."""

    def __init__(self, stack: TransformerStack, rows: int, like: Tensor):
        config = stack.config
        heads = config.num_heads * config.head_dim
        self.x = like.new_zeros(rows, config.hidden_size)
        self.qkv = like.new_zeros(rows, heads + 2 * config.num_kv_heads * config.head_dim)
        self.heads = like.new_zeros(rows, heads)
        self.gated = like.new_zeros(rows, config.intermediate_size)


class FullStep:
    """Steps for the slots of ``state`` and the talker's ``cache``.

    ``draw_first``, ``draw_rest``: how codebook 0 and the others are drawn. ``penalty``: the
    repetition penalty. ``pdl``: programmatic dependent launches (compute capability 9.0 and later).
    """

    def __init__(
        self, model: Model, cache: SlotCache, state: SlotState, draw_first: FastDraw, draw_rest: FastDraw,
        penalty: float, pdl: bool, tile_for: TileFor = tile_for,
    ):  # fmt: skip
        self._model, self._cache, self._state = model, cache, state
        self._draw_first, self._draw_rest, self._penalty = draw_first, draw_rest, penalty
        self._pdl, self._tile_for = pdl, tile_for
        rows = state.hidden.shape[0]
        talker, predictor = model.talker, model.predictor
        config = predictor.config
        like = state.hidden
        self._frame = Buffers(predictor.stack, 2 * rows, like)
        self._talker = Buffers(talker.stack, rows, like)
        self._frame_keys, self._frame_values = like.new_zeros(
            2, config.transformer.num_layers, rows, config.transformer.num_kv_heads,
            triton.next_power_of_2(config.num_code_groups), config.transformer.head_dim,
        )  # fmt: skip
        self._rest_logits = like.new_zeros(rows, config.codebook_size)
        self._first_logits = like.new_zeros(rows, talker.config.codec_vocab_size)
        self._rotaries = {
            id(stack): tuple(table.to(like.dtype).contiguous() for table in (stack.rotary.cos, stack.rotary.sin))
            for stack in (talker.stack, predictor.stack)
        }
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self.result = torch.zeros(rows, config.num_code_groups + 1, dtype=torch.long, device=like.device)

    def capture(self, stream: torch.cuda.Stream | None = None) -> None:
        """Compile every kernel and capture one graph for each batch size, with the priority of ``stream``."""
        rows = self._state.hidden.shape[0]
        pool = None
        for count in sorted({min(size, rows) for size in GRAPH_ROWS}, reverse=True):
            self.run(count)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool, stream=stream):
                self.run(count)
            pool = graph.pool()
            self._graphs[count] = graph

    def replay(self, count: int) -> None:
        """One frame for at least the first ``count`` slots; the codes are in ``result`` [slots, 17] afterwards."""
        self._graphs[min(size for size in self._graphs if size >= count)].replay()

    def run(self, rows: int) -> None:
        """The frame of the first ``rows`` slots, kernel by kernel."""
        state, predictor, talker = self._state, self._model.predictor, self._model.talker
        self._begin_frame(rows)
        for group in range(1, predictor.config.num_code_groups):
            new = 2 if group == 1 else 1  # positions 0 and 1 go through together
            self._predict(rows, new, group)
            self._draw_code(rows, group)
        buffers = self._talker
        self._embed_frame(rows, buffers.x)
        self._through(talker.stack, buffers, rows, self._attend_slots(rows))
        self._end_frame(rows, buffers.x)
        self._linear(state.hidden, talker.codec_head.weight, self._first_logits, rows)
        self._draw_code0(rows)

    def _through(self, stack: TransformerStack, buffers: Buffers, rows: int, attend: Attend) -> None:
        """The layers over ``buffers.x`` [rows, hidden], in place: five kernels each."""
        x, eps = buffers.x, stack.config.rms_norm_eps
        for index, layer in enumerate(stack.layers):
            norm, norm2 = layer.input_layernorm.weight, layer.post_attention_layernorm.weight
            self._linear(x, layer.qkv_proj.weight, buffers.qkv, rows, gain=norm, eps=eps)
            attend(index, layer)
            self._linear(buffers.heads, layer.o_proj.weight, x, rows, residual=x)
            self._linear(x, layer.gate_up_proj.weight, buffers.gated, rows, gain=norm2, eps=eps, gated=True)
            self._linear(buffers.gated, layer.down_proj.weight, x, rows, residual=x)

    def _predict(self, rows: int, new: int, group: int) -> None:
        """``new`` positions up to ``group`` of every frame -> logits of code ``group``."""
        predictor, buffers = self._model.predictor, self._frame
        stack = predictor.stack
        eps = stack.config.rms_norm_eps

        def attend(index: int, layer: DecoderLayer) -> None:
            frame_attention(
                buffers.qkv, (layer.q_norm.weight, layer.k_norm.weight), self._rotaries[id(stack)],
                self._frame_keys[index], self._frame_values[index], buffers.heads,
                rows, group + 1 - new, new, eps, self._pdl,
            )  # fmt: skip

        self._through(stack, buffers, rows * new, attend)
        last = buffers.x.view(-1, new, stack.config.hidden_size)[:, -1]
        self._linear(last, predictor.heads[group - 1], self._rest_logits, rows, gain=stack.norm.weight, eps=eps)

    def _attend_slots(self, rows: int) -> Attend:
        stack, cache, buffers = self._model.talker.stack, self._cache, self._talker
        lengths, positions = self._state.counters[1], self._state.counters[2]

        def attend(index: int, layer: DecoderLayer) -> None:
            slot_attention(
                buffers.qkv, (layer.q_norm.weight, layer.k_norm.weight), self._rotaries[id(stack)],
                cache.keys[index], cache.values[index], lengths, positions,
                buffers.heads, rows, stack.config.rms_norm_eps, self._pdl,
            )  # fmt: skip

        return attend

    def _linear(self, x: Tensor, weight: Tensor, out: Tensor, rows: int, gated: bool = False, **more: object) -> None:
        n = weight.shape[0] // 2 if gated else weight.shape[0]
        tile = self._tile_for(n, weight.shape[1], rows, gated)
        linear(x, weight, out, rows, tile, gated=gated, pdl=self._pdl, **more)

    def _begin_frame(self, rows: int) -> None:
        predictor, state, inputs = self._model.predictor, self._state, self._frame.x
        projection = predictor.input_projection
        width, projected = inputs.shape[1], isinstance(projection, torch.nn.Linear)
        begin_frame_kernel[(rows,)](
            state.hidden, state.counters[0], predictor.projected, inputs, self.result,
            GROUPS=predictor.config.num_code_groups, WIDTH=width, WIDTH_BLOCK=triton.next_power_of_2(width),
            COPY=not projected, PDL=self._pdl, launch_pdl=self._pdl,
        )  # fmt: skip
        if projected:
            first = inputs.view(-1, 2, width)[:, 0]
            self._linear(state.hidden, projection.weight, first, rows, bias=projection.bias)

    def _draw_code(self, rows: int, group: int) -> None:
        predictor, state, draw = self._model.predictor, self._state, self._draw_rest
        groups, size, width = predictor.config.num_code_groups, predictor.config.codebook_size, self._frame.x.shape[1]
        draw_rest_kernel[(rows,)](
            self._rest_logits, state.uniforms, state.counters[3], self.result, predictor.projected, self._frame.x,
            state.uniforms.stride(0), draw.temperature, group,
            GROUPS=groups, VOCABULARY=size, SIZE=triton.next_power_of_2(size), WIDTH=width,
            WIDTH_BLOCK=triton.next_power_of_2(width), TOP_K=draw.top_k, GREEDY=draw.greedy,
            BITS=key_bits(self._rest_logits), LAST=group == groups - 1, PDL=self._pdl, launch_pdl=self._pdl,
        )  # fmt: skip

    def _embed_frame(self, rows: int, out: Tensor) -> None:
        predictor, state = self._model.predictor, self._state
        width, trailing = out.shape[1], state.trailing
        block = min(256, triton.next_power_of_2(width))
        embed_frame_kernel[(rows, triton.cdiv(width, block))](
            self.result, self._model.talker.codec_embedding.weight, predictor.embeddings,
            out if trailing is None else trailing, state.counters[4], state.counters[6], out,
            0 if trailing is None else trailing.stride(0),
            GROUPS=predictor.config.num_code_groups, VOCABULARY=predictor.config.codebook_size, WIDTH=width,
            BLOCK=block, TRAILING=trailing is not None, PDL=self._pdl, launch_pdl=self._pdl,
        )  # fmt: skip

    def _end_frame(self, rows: int, x: Tensor) -> None:
        state, stack = self._state, self._model.talker.stack
        width = x.shape[1]
        end_frame_kernel[(rows,)](
            x, stack.norm.weight, state.hidden, state.counters, state.active, stack.config.rms_norm_eps,
            state.counters.shape[1], FIRST=1, COUNT=4, WIDTH=width, BLOCK=triton.next_power_of_2(width),
            PDL=self._pdl, launch_pdl=self._pdl,
        )  # fmt: skip

    def _draw_code0(self, rows: int) -> None:
        config, state, draw = self._model.talker.config, self._state, self._draw_first
        size, penalised = config.codec_vocab_size, state.seen is not None
        logits = self._first_logits
        draw_first_kernel[(rows,)](
            logits, state.uniforms, state.counters[3], self.result, state.counters[0], state.counters[4],
            state.counters[5], state.seen if penalised else logits, state.uniforms.stride(0), draw.temperature,
            self._penalty, GROUPS=self._model.predictor.config.num_code_groups, VOCABULARY=size,
            SIZE=triton.next_power_of_2(size), END=config.codec_eos_id,
            SUPPRESSED=size if config.first_suppressed_id is None else config.first_suppressed_id,
            PENALISE=penalised, TOP_K=draw.top_k, GREEDY=draw.greedy,
            BITS=32 if penalised else key_bits(logits), PDL=self._pdl, launch_pdl=self._pdl,
        )  # fmt: skip
