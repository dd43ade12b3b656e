"""The cheaper forms of a layer's operations against their definitions."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from reference_impl.model.layers import FewOpsNorm, RMSNorm, RotaryTable, by_columns, prepare_layers, rotate


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 1e4])
def test_the_norm_in_few_operations_is_rms_norm(scale):
    generator = torch.Generator().manual_seed(0)
    x = scale * torch.randn(5, 3, 64, generator=generator)
    gain = torch.rand(64, generator=generator)
    assert torch.allclose(FewOpsNorm(gain, 1e-6)(x), F.rms_norm(x, (64,), gain, 1e-6), rtol=1e-5, atol=1e-7)


def test_the_norm_of_zeros_is_zero():
    assert torch.equal(FewOpsNorm(torch.ones(8), 1e-6)(torch.zeros(2, 8)), torch.zeros(2, 8))


def test_one_norm_may_have_a_gain_for_each_head():
    x, gains = torch.randn(2, 4, 3, 16), torch.rand(3, 16)
    heads = [F.rms_norm(x[:, :, i], (16,), gains[i], 1e-6) for i in range(3)]
    assert torch.allclose(FewOpsNorm(gains, 1e-6)(x), torch.stack(heads, dim=2), atol=1e-6)


def test_only_float32_on_a_cpu_is_prepared():
    for dtype, prepared in ((torch.float32, True), (torch.bfloat16, False)):
        norm, linear = RMSNorm(8, 1e-6).to(dtype), nn.Linear(8, 6).to(dtype)
        weight = linear.weight.detach().clone()
        prepare_layers(nn.Sequential(norm, linear))
        assert (norm._few_ops is not None) == prepared
        assert linear.weight.t().is_contiguous() == prepared
        assert torch.equal(linear.weight, weight)


def test_a_layout_by_columns_changes_no_value():
    matrices = torch.randn(3, 4, 5)
    assert torch.equal(by_columns(matrices), matrices)
    assert by_columns(matrices).stride() == (20, 1, 4)


def test_rotation_is_a_turn_of_the_pairs_of_a_head():
    table = RotaryTable(head_dim=8, theta=100.0, max_positions=20)
    x = torch.randn(1, 20, 2, 8)
    turned = rotate(x, *table(torch.arange(20)[None]))
    pairs = torch.complex(x[..., :4], x[..., 4:])
    angle = torch.arange(20)[:, None] * 100.0 ** (-torch.arange(4) / 4)
    expected = pairs * torch.polar(torch.ones(20, 4), angle)[None, :, None]
    assert torch.allclose(turned, torch.cat([expected.real, expected.imag], dim=-1), atol=1e-5)
    assert torch.allclose(table.cos, torch.cat([angle.cos(), angle.cos()], dim=-1), atol=1e-6)
    assert torch.allclose(table.sin, torch.cat([angle.sin(), angle.sin()], dim=-1), atol=1e-6)
