"""Codebooks learned as running means of what they quantise (VQ-VAE: van den Oord et al., 2017, appendix A)."""

from __future__ import annotations

import torch
from torch import Tensor

DECAY = 0.99
DEAD_BELOW = 0.15  # uses a step, averaged; such a row restarts at a random input
REVIVE_EVERY = 20
KMEANS_ROUNDS = 8


class CodebookLearner:
    """Running sums and counts of every row of ``books`` [groups, V, D], which it updates in place."""

    def __init__(self, books: Tensor):
        self._books = books
        self._sums = torch.zeros_like(books.detach())
        self._uses = torch.ones(books.shape[:2], device=books.device)
        self._ready = torch.zeros(books.shape[0], dtype=torch.bool)
        self._calls = 0

    def state_dict(self) -> dict[str, object]:
        """For a training state."""
        return {"sums": self._sums, "uses": self._uses, "ready": self._ready, "calls": self._calls}

    def load_state_dict(self, state: dict) -> None:
        """See :meth:`state_dict`."""
        self._sums.copy_(state["sums"])
        self._uses.copy_(state["uses"])
        self._ready.copy_(state["ready"])
        self._calls = state["calls"]

    @torch.no_grad()
    def start(self, group: int, vectors: Tensor, gen: torch.Generator) -> None:
        """Before a book's first use: k-means over the first vectors [N, D] it sees."""
        if self._ready[group]:
            return
        size = self._books.shape[1]
        pick = torch.randint(0, len(vectors), (size,), device=vectors.device, generator=gen)
        rows = vectors[pick].clone()
        for _ in range(KMEANS_ROUNDS):
            codes = (vectors @ (2 * rows.T) - rows.square().sum(1)).argmax(1)
            uses = torch.bincount(codes, minlength=size).float()
            means = torch.zeros_like(rows).index_add_(0, codes, vectors) / uses.clamp(min=1)[:, None]
            spare = vectors[torch.randint(0, len(vectors), (size,), device=vectors.device, generator=gen)]
            rows = torch.where((uses > 0)[:, None], means, spare)
        self._books.data[group], self._sums[group], self._uses[group] = rows, rows, 1.0
        self._ready[group] = True

    @torch.no_grad()
    def update(self, group: int, vectors: Tensor, codes: Tensor, gen: torch.Generator) -> None:
        """Move a book towards the vectors [N, D] that chose ``codes`` [N]."""
        size = self._books.shape[1]
        uses = torch.bincount(codes, minlength=size).float()
        sums = torch.zeros_like(self._sums[group]).index_add_(0, codes, vectors)
        self._uses[group].lerp_(uses, 1 - DECAY)
        self._sums[group].lerp_(sums, 1 - DECAY)
        if group == 0:
            self._calls += 1
        if self._calls % REVIVE_EVERY == 0:
            dead = self._uses[group] < DEAD_BELOW
            spare = vectors[torch.randint(0, len(vectors), (size,), device=vectors.device, generator=gen)]
            self._sums[group] = torch.where(dead[:, None], spare, self._sums[group])
            self._uses[group] = torch.where(dead, 1.0, self._uses[group])
        self._books.data[group] = self._sums[group] / self._uses[group].clamp(min=1e-5)[:, None]
