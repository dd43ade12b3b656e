"""The code predictor: from the talker's hidden state and codebook 0 to the whole frame of 16 codes.

A frame is a sequence of its own, positions 0..15, with nothing carried over from the frame
before. Position 0 holds the talker's hidden state, position 1 the embedding of code 0,
position g the embedding of code g-1; the output at position g (1..15) predicts code g.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_impl.config import PredictorConfig
from reference_impl.kv_cache import FrameCache
from reference_impl.layers import TransformerStack
from reference_impl.sampling import sample


class CodePredictor(nn.Module):
    """``talker_hidden``: width of the talker; the input projection exists only if it differs from ours.

    Parameters: ``embeddings`` [15, V, talker_hidden] for codes 1..15 (the last one is used
    only in the talker's input sum) and ``heads`` [15, V, hidden] for codes 1..15.
    """

    projected: Tensor

    def __init__(self, config: PredictorConfig, talker_hidden: int):
        super().__init__()
        self.config = config
        hidden, groups = config.transformer.hidden_size, config.num_code_groups
        self.embeddings = nn.Parameter(torch.zeros(groups - 1, config.codebook_size, talker_hidden))
        self.heads = nn.Parameter(torch.zeros(groups - 1, config.codebook_size, hidden))
        self.input_projection = nn.Linear(talker_hidden, hidden) if talker_hidden != hidden else nn.Identity()
        self.stack = TransformerStack(config.transformer, max_positions=groups)

    def prepare(self, codec_embedding: Tensor) -> None:
        """Project every table once: ``projected`` [15 × V, hidden] holds the inputs for codes 0..14.

        ``codec_embedding`` [at least V, talker_hidden] is the talker's table for code 0. Call
        after the weights are loaded and whenever they change.
        """
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

    def expand(
        self, hidden: Tensor, code0: Tensor, uniforms: Tensor, cache: FrameCache, temperature: float, top_k: int
    ) -> Tensor:
        """hidden [B, talker_hidden], code0 [B], uniforms [B, 16] (column g draws code g) -> codes [B, 16]."""
        groups, size = self.config.num_code_groups, self.config.codebook_size
        positions = torch.arange(groups, device=hidden.device)[None]
        codes = [code0]
        inputs = torch.stack([self.input_projection(hidden), self.projected[code0]], dim=1)
        first = 0
        for group in range(1, groups):
            cache.start(first)
            length = inputs.shape[1]
            state = self.stack(inputs, positions[:, first : first + length], cache)[:, -1]
            code = sample(state @ self.heads[group - 1].T, temperature, top_k, uniforms[:, group])
            codes.append(code)
            if group < groups - 1:
                first += length
                inputs = self.projected[code + group * size][:, None]
        return torch.stack(codes, dim=1)

    def embed_frame(self, codes: Tensor, codec_embedding: Tensor) -> Tensor:
        """The talker's next input: the sum of a frame's 16 embeddings. codes [B, 16] -> [B, talker_hidden]."""
        size = self.config.codebook_size
        offsets = torch.arange(self.config.num_code_groups - 1, device=codes.device) * size
        rest = nn.functional.embedding_bag(codes[:, 1:] + offsets, self.embeddings.flatten(0, 1), mode="sum")
        return codec_embedding[codes[:, 0]] + rest
