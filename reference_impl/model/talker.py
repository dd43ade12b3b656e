"""The talker: text and codec embeddings in, codebook 0 of the next frame out.

The transformer never sees ids: every position is a vector [H] that the caller summed. One
decode step: input = the sum of the frame's 16 code embeddings (+ a text vector) -> hidden
state [H] -> logits over codebook 0, the end token and the control ids.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from reference_impl.model.config import TalkerConfig
from reference_impl.model.kv_cache import DecodeView, PrefillView, SlotCache
from reference_impl.model.layers import TransformerStack
from reference_impl.model.recording import Recording


class TextProjection(nn.Module):
    """Two linear layers with SiLU from the text embedding's width to the talker's."""

    def __init__(self, text_hidden: int, hidden: int):
        super().__init__()
        self.linear_fc1 = nn.Linear(text_hidden, text_hidden)
        self.linear_fc2 = nn.Linear(text_hidden, hidden)

    def forward(self, x: Tensor) -> Tensor:
        """[..., text_hidden] -> [..., hidden]."""
        return self.linear_fc2(nn.functional.silu(self.linear_fc1(x)))


class Table(nn.Embedding):
    """An embedding that is filled later where it has no memory yet.

    To draw numbers on the meta device all the same loads PyTorch's compiler, for which every start would wait.
    """

    def reset_parameters(self) -> None:
        """As PyTorch's, but not on the meta device."""
        if not self.weight.is_meta:
            super().reset_parameters()


class Talker(nn.Module):
    """See the module docstring. ``max_positions`` bounds the rotary table."""

    def __init__(self, config: TalkerConfig, max_positions: int):
        super().__init__()
        self.config = config
        hidden = config.transformer.hidden_size
        text_hidden = config.text_hidden_size or hidden
        self.text_embedding = Table(config.text_vocab_size, text_hidden)
        self.text_projection = TextProjection(text_hidden, hidden) if config.text_hidden_size else nn.Identity()
        self.codec_embedding = Table(config.codec_vocab_size, hidden)
        self.stack = TransformerStack(config.transformer, max_positions)
        self.codec_head = nn.Linear(hidden, config.codec_vocab_size, bias=False)
        self.step: Callable[..., Tensor] = self._step

    def record(self) -> None:
        """Replay the decode step from now on instead of running it; see :class:`Recording`."""
        self.step = Recording(self._step)

    def embed_text(self, ids: Tensor) -> Tensor:
        """Text ids [...] -> vectors [..., H]."""
        return self.text_projection(self.text_embedding(ids))

    def prefill(self, embeds: Tensor, positions: Tensor, cache: SlotCache, slot: int) -> Tensor:
        """Prompt vectors [S, H] at positions [S] into an empty slot -> last hidden state [H]."""
        return self.stack(embeds[None], positions[None], PrefillView(cache, slot))[0, -1]

    def decode(self, embeds: Tensor, positions: Tensor, cache: SlotCache, lengths: Tensor, span: int) -> Tensor:
        """One position for each of the first B slots.

        embeds [B, H], positions [B] (rotary), lengths [B] (positions already in the slot),
        span: at least max(lengths) + 1 -> hidden states [B, H].
        """
        used = slice(0, len(embeds))
        return self.step(embeds, positions, lengths, cache.keys[:, used, :, :span], cache.values[:, used, :, :span])

    def _step(self, embeds: Tensor, positions: Tensor, lengths: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return self.stack(embeds[:, None], positions[:, None], DecodeView(keys, values, lengths))[:, 0]
