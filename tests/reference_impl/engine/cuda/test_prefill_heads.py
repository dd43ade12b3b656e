"""The kernel between a prompt's product and its attention, against the modules."""

from __future__ import annotations

import pytest
import torch
from small_model import DEVICE, needs_kernels

from reference_impl.model.layers import RMSNorm, RotaryTable, rotate

pytest.importorskip("triton", reason="Triton comes with CUDA builds of PyTorch")
from reference_impl.engine.cuda.prefill import prompt_heads

pytestmark = needs_kernels
HEADS, KV_HEADS, DIM, LENGTH, SLOTS, MAX_LEN, EPS = 6, 3, 16, 7, 5, 12, 1e-6


def test_queries_keys_and_cache_float32() -> None:
    generator = torch.Generator().manual_seed(2)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(DEVICE)

    qkv = random(2, LENGTH, (HEADS + 2 * KV_HEADS) * DIM)
    norms = [RMSNorm(DIM, EPS).to(DEVICE) for _ in range(2)]
    for norm in norms:
        norm.weight.data = random(DIM)
    rotary = RotaryTable(DIM, 1e4, 40).to(DEVICE)
    rows, begin = torch.tensor([4, 1], device=DEVICE), torch.tensor([0, 36], device=DEVICE)
    keys, values = (torch.full((SLOTS, KV_HEADS, MAX_LEN, DIM), 9.0, device=DEVICE) for _ in range(2))

    heads = qkv.view(2, LENGTH, -1, DIM)
    query, key, value = heads.split([HEADS, KV_HEADS, KV_HEADS], dim=2)
    # the second prompt is padded beyond the last position there is
    rope = rotary((begin[:, None] + torch.arange(LENGTH, device=DEVICE)).clamp(max=39))
    want_query, want_key = rotate(norms[0](query), *rope), rotate(norms[1](key), *rope)
    want_value = value.clone()
    prompt_heads(
        qkv, (norms[0].weight, norms[1].weight), rotary.table, keys, values, rows, begin, EPS,
    )  # fmt: skip

    torch.testing.assert_close(heads[:, :, :HEADS], want_query, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(heads[:, :, HEADS : HEADS + KV_HEADS], want_key, rtol=1e-5, atol=1e-5)
    assert torch.equal(heads[:, :, HEADS + KV_HEADS :], want_value)
    for prompt, row in enumerate(rows.tolist()):
        torch.testing.assert_close(keys[row, :, :LENGTH].transpose(0, 1), want_key[prompt], rtol=1e-5, atol=1e-5)
        assert torch.equal(values[row, :, :LENGTH].transpose(0, 1), want_value[prompt])
    untouched = [0, 2, 3]
    for cache in (keys, values):
        assert (cache[untouched] == 9).all() and (cache[:, :, LENGTH:] == 9).all()
