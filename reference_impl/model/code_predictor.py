"""The code predictor: from the talker's hidden state and codebook 0 to the whole frame of 16 codes.

The pieces of one step are here; ``predictor_strategies.py`` has the loop over the 15 steps.

A frame is a sequence of its own, positions 0..15, with nothing carried over from the frame
before. Position 0 holds the talker's hidden state, position 1 the embedding of code 0,
position g the embedding of code g-1; the output at position g (1..15) predicts code g.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_impl.model.config import PredictorConfig
from reference_impl.model.kv_cache import FrameCache
from reference_impl.model.layers import TransformerStack, by_columns, counts_operations


class CodePredictor(nn.Module):
    """``talker_hidden``: width of the talker; the input projection exists only if it differs from ours.

    Parameters: ``embeddings`` [15, V, talker_hidden] for codes 1..15 (the last one is used
    only in the talker's input sum) and ``heads`` [15, V, hidden] for codes 1..15.
    """

    projected: Tensor
    positions: Tensor

    def __init__(self, config: PredictorConfig, talker_hidden: int):
        super().__init__()
        self.config = config
        hidden, groups = config.transformer.hidden_size, config.num_code_groups
        self.embeddings = nn.Parameter(torch.zeros(groups - 1, config.codebook_size, talker_hidden))
        self.heads = nn.Parameter(torch.zeros(groups - 1, config.codebook_size, hidden))
        self.input_projection = nn.Linear(talker_hidden, hidden) if talker_hidden != hidden else nn.Identity()
        # one position more than a frame has: the padded window of ``fixed_window``
        self.stack = TransformerStack(config.transformer, max_positions=groups + 1)
        self.register_buffer("positions", torch.empty(1, groups + 1, dtype=torch.long), persistent=False)
        self.fill()

    def fill(self) -> None:
        """Number the positions of a frame; needed again after ``to_empty``."""
        if not self.positions.is_meta:
            self.positions.copy_(torch.arange(self.positions.shape[1]))

    def prepare(self, codec_embedding: Tensor) -> None:
        """Project every table once: ``projected`` [15 × V, hidden] holds the inputs for codes 0..14.

        ``codec_embedding`` [at least V, talker_hidden] is the talker's table for code 0. Call
        after the weights are loaded and whenever they change.
        """
        if counts_operations(self.heads):
            self.heads.data = by_columns(self.heads.data)
        size = self.config.codebook_size
        tables = torch.cat([codec_embedding[None, :size], self.embeddings[:-1]]).flatten(0, 1)
        self.register_buffer("projected", self.input_projection(tables).detach(), persistent=False)

    def new_cache(self, rows: int) -> FrameCache:
        """A cache for at most ``rows`` frames at a time."""
        config, like = self.config.transformer, self.heads
        return FrameCache(
            config.num_layers,
            rows,
            config.num_kv_heads,
            self.config.num_code_groups,
            config.head_dim,
            like.device,
            like.dtype,
        )

    def first_inputs(self, hidden: Tensor, code0: Tensor) -> Tensor:
        """Positions 0 and 1: hidden [B, talker_hidden], code0 [B] -> [B, 2, hidden]."""
        if hidden.dim() != 2 or code0.shape != hidden.shape[:1]:
            # [B, 1, H] with [B] would broadcast to a plausible wrong result
            raise ValueError(f"hidden {tuple(hidden.shape)} and code0 {tuple(code0.shape)}: want [B, H] and [B]")
        return torch.stack([self.input_projection(hidden), self.projected[code0]], dim=1)

    def input_of(self, code: Tensor, group: int) -> Tensor:
        """The input made of code ``group`` (0..14) [B] -> [B, hidden]; it belongs to position group + 1."""
        return self.projected[code + group * self.config.codebook_size]

    def logits(self, state: Tensor, group: int) -> Tensor:
        """State at position ``group`` (1..15) [B, hidden] -> logits of code ``group`` [B, V]."""
        return state @ self.heads[group - 1].T

    def embed_frame(self, codes: Tensor, codec_embedding: Tensor) -> Tensor:
        """The talker's next input: the sum of a frame's 16 embeddings. codes [B, 16] -> [B, talker_hidden]."""
        size = self.config.codebook_size
        offsets = torch.arange(self.config.num_code_groups - 1, device=codes.device) * size
        rest = nn.functional.embedding_bag(codes[:, 1:] + offsets, self.embeddings.flatten(0, 1), mode="sum")
        return codec_embedding[codes[:, 0]] + rest
