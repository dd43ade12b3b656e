"""The execution ladder: batches that run a step in other ways (``reference.graphs``).

One result, rising speed: the two halves of a layer compiled by torch.compile; the code predictor and
the talker in one CUDA graph each; the whole step in one graph of fused kernels (``cuda/``).
Everything but the last keeps PyTorch's kernels.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from omni_bench.errors import ConfigError
from reference_impl.engine.decode_batch import DecodeBatch
from reference_impl.loading.checkpoint import Model
from reference_impl.model.kv_cache import CacheView
from reference_impl.model.layers import DecoderLayer, attend, rotate
from reference_impl.model.predictor_strategies import bucket
from reference_impl.model.spans import span
from reference_impl.settings import ServerSettings


class CompiledBatch(DecodeBatch):
    """What comes before and after the attention of a layer is compiled, each once for a number of slots.

    Slots are padded to a power of two, so that few shapes are compiled. Compiling a whole step
    at once takes minutes (15 × 5 layers unrolled).
    """

    def __init__(self, model: Model, settings: ServerSettings, max_frames: int, pad: Tensor | None = None):
        super().__init__(model, settings, max_frames, pad)
        need_cuda(model, settings)
        import torch._dynamo

        # beyond the limit the rest runs uncompiled: both stacks at each number of slots, and the predictor's first pass
        shapes = 3 * (settings.max_batch.bit_length() + 1)
        torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, shapes)
        before = torch.compile(_before_attention, dynamic=False)
        after = torch.compile(_after_attention, dynamic=False)
        for layer in [*model.talker.stack.layers, *model.predictor.stack.layers]:
            layer.forward = _CompiledLayer(layer, before, after)

    def _shape(self) -> tuple[int, int]:
        slots = self.settings.max_batch if self.settings.deterministic else bucket(self.count)
        return min(slots, self.settings.max_batch), self.settings.max_seq_len


def restore_layers(model: Model) -> None:
    """Undo what :class:`CompiledBatch` did to the layers, for another batch over the same model."""
    for layer in [*model.talker.stack.layers, *model.predictor.stack.layers]:
        layer.__dict__.pop("forward", None)


class _CompiledLayer:
    """Forward of one layer of one new position; a prompt takes the plain way."""

    def __init__(self, layer: DecoderLayer, before: object, after: object):
        self._layer, self._before, self._after = layer, before, after
        self._plain = layer.forward

    def __call__(self, x: Tensor, rope: tuple[Tensor, Tensor], view: CacheView, index: int) -> Tensor:
        """See :meth:`DecoderLayer.forward`."""
        if x.shape[1] > 2:
            return self._plain(x, rope, view, index)
        query, key, value = self._before(self._layer, x, *rope)
        seen = view.append(index, key.transpose(1, 2), value.transpose(1, 2))
        return self._after(self._layer, x, attend(query, seen))


def _before_attention(layer: DecoderLayer, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    qkv = layer.qkv_proj(layer.input_layernorm(x)).view(*x.shape[:2], -1, layer.head_dim)
    query, key, value = qkv.split([layer.heads, layer.kv_heads, layer.kv_heads], dim=2)
    return rotate(layer.q_norm(query), cos, sin), rotate(layer.k_norm(key), cos, sin), value


def _after_attention(layer: DecoderLayer, x: Tensor, attended: Tensor) -> Tensor:
    x = x + layer.o_proj(attended)
    gate, up = layer.gate_up_proj(layer.post_attention_layernorm(x)).chunk(2, dim=-1)
    return x + layer.down_proj(F.silu(gate) * up)


class StageGraphBatch(DecodeBatch):
    """The code predictor in one CUDA graph and the talker in another, both of PyTorch's kernels; the rest outside."""

    def __init__(self, model: Model, settings: ServerSettings, max_frames: int, pad: Tensor | None = None):
        super().__init__(model, settings, max_frames, pad)
        need_cuda(model, settings)
        self._graphs: dict[int, tuple[torch.cuda.CUDAGraph, Tensor, torch.cuda.CUDAGraph, Tensor]] = {}
        with torch.inference_mode():
            most = settings.max_batch
            for slots in sorted({min(1 << power, most) for power in range(most.bit_length() + 1)}):
                self._capture(slots)
            self._clear(slice(0, settings.max_batch))

    def _capture(self, count: int) -> None:
        slots, attended = slice(0, count), self.settings.max_seq_len

        def talk(codes: Tensor) -> Tensor:
            embeds = self._next_inputs(codes, slots)
            return self.model.talker.decode(embeds, self._position[slots], self._cache, self._length[slots], attended)

        talk(self._complete(slots))
        torch.cuda.synchronize()
        predict_graph, talk_graph = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(predict_graph):
            codes = self._complete(slots)
        with torch.cuda.graph(talk_graph):
            hidden = talk(codes)
        self._graphs[count] = predict_graph, codes, talk_graph, hidden

    def step(self) -> np.ndarray:
        """See :meth:`DecodeBatch.step`."""
        count = self.settings.max_batch if self.settings.deterministic else self.count
        size = min(size for size in self._graphs if size >= count)
        slots = slice(0, size)
        predict_graph, codes, talk_graph, hidden = self._graphs[size]
        with span("predictor"):
            predict_graph.replay()
        with span("talker"):
            talk_graph.replay()
        self._counters[1:5, slots] += 1
        self._hidden[slots] = hidden
        self._code0[slots] = self._draw(hidden, slots)
        with span("codes to the host"):
            result = torch.cat([codes, self._code0[slots, None]], dim=1)[: self.count].cpu().numpy()
        for slot in range(self.count):
            self._longest[slot] += 1
        self._clear(slice(self.count, size))
        return result


def need_cuda(model: Model, settings: ServerSettings) -> None:
    """Raises ConfigError on another device."""
    if model.device.type != "cuda":
        raise ConfigError(f"reference.graphs={settings.graphs!r} needs CUDA, not {model.device}; valid there: off")
