"""Muon for the matrices of the transformer stacks, and an average of all weights.

Muon (Keller Jordan, 2024): the momentum of a matrix's gradient is replaced by the nearest
semi-orthogonal matrix, found by five Newton-Schulz iterations of a quintic polynomial.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

# coefficients of the quintic: steep at zero, all singular values end near 1
A, B, C = 3.4445, -4.7750, 2.0315
ITERATIONS = 5


def orthogonalise(matrices: Tensor) -> Tensor:
    """[N, rows, columns] -> about the nearest semi-orthogonal matrices, float32."""
    x = matrices.bfloat16() if matrices.is_cuda else matrices
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = A * x + (B * gram + C * gram @ gram) @ x
    return (x.mT if tall else x).float()


class Muon:
    """Momentum 0.95 (Nesterov), orthogonalised update, decoupled weight decay.

    ``pieces``: (parameter, first row, last row + 1); rows of a fused matrix that act as matrices
    of their own (query, key, value; gate, up) are pieces of their own. Pieces of equal shape
    are updated together.
    """

    def __init__(self, pieces: Sequence[tuple[nn.Parameter, int, int]], momentum: float = 0.95, decay: float = 0.05):
        self._momentum, self._decay = momentum, decay
        self._groups: dict[tuple[int, int], list[tuple[nn.Parameter, int, int]]] = {}
        for parameter, first, last in pieces:
            self._groups.setdefault((last - first, parameter.shape[1]), []).append((parameter, first, last))
        device = pieces[0][0].device
        self._velocity = {k: torch.zeros(len(v), *k, device=device) for k, v in self._groups.items()}

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Apply the gradients. The update of a matrix is scaled by sqrt(max(1, rows / columns))."""
        for shape, pieces in self._groups.items():
            gradient = torch.stack([p.grad[a:b] for p, a, b in pieces])
            velocity = self._velocity[shape]
            velocity.lerp_(gradient, 1 - self._momentum)
            update = orthogonalise(gradient.lerp(velocity, self._momentum))
            scaled = update * (-rate * max(1.0, shape[0] / shape[1]) ** 0.5)
            rows = [p.data[a:b] for p, a, b in pieces]
            torch._foreach_mul_(rows, 1 - rate * self._decay)
            torch._foreach_add_(rows, list(scaled.unbind()))

    def state_dict(self) -> dict[str, Tensor]:
        """Momenta by shape."""
        return {f"{a}x{b}": v for (a, b), v in self._velocity.items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """See :meth:`state_dict`."""
        for (a, b), velocity in self._velocity.items():
            velocity.copy_(state[f"{a}x{b}"])


class Average:
    """Exponential moving average of a module's parameters; it follows faster at the beginning."""

    def __init__(self, module: nn.Module, decay: float = 0.999):
        self._module, self._decay = module, decay
        self.values = [p.detach().clone() for p in module.parameters()]

    @torch.no_grad()
    def update(self, step: int) -> None:
        """After optimiser step number ``step`` (from 1)."""
        weight = 1 - min(self._decay, 1 - 1 / (step / 10 + 1))
        torch._foreach_lerp_(self.values, [p.detach() for p in self._module.parameters()], weight)

    @torch.no_grad()
    def copy_to(self, module: nn.Module) -> None:
        """Give another module of the same kind the averaged weights."""
        for parameter, value in zip(module.parameters(), self.values, strict=True):
            parameter.copy_(value)
