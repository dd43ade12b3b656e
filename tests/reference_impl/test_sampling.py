"""The sampler draws from the distribution it says, and its numbers depend on the seed alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from reference_impl.sampling import request_uniforms, sample


def test_uniforms_are_a_function_of_the_seed():
    assert np.array_equal(request_uniforms(5, 40, 16), request_uniforms(5, 40, 16))
    assert not np.array_equal(request_uniforms(5, 40, 16), request_uniforms(6, 40, 16))


def test_a_longer_table_begins_with_the_shorter_one():
    assert np.array_equal(request_uniforms(9, 100, 16)[:7], request_uniforms(9, 7, 16))


def test_uniforms_are_uniform():
    values = request_uniforms(1, 2000, 16)
    assert values.min() >= 0 and values.max() < 1
    assert abs(values.mean() - 0.5) < 0.01
    assert abs(np.corrcoef(values[:, 0], values[:, 1])[0, 1]) < 0.1


@pytest.mark.parametrize("seed", [0, 2**63 - 1, 2**64 + 3, -1])
def test_any_integer_is_a_seed(seed):
    assert request_uniforms(seed, 2, 16).shape == (2, 16)


@pytest.mark.parametrize(("temperature", "top_k"), [(1.0, 0), (0.7, 5), (1.3, 3), (0.7, 100)])
def test_frequencies_match_the_distribution(temperature, top_k):
    """Chi-square on a fine grid of draws, against probabilities computed the plain way in float64."""
    logits = torch.tensor([1.0, 3.0, 2.0, -1.0, 2.5, 0.0, 1.5, -3.0], dtype=torch.float64)
    kept = logits.clone()
    if 0 < top_k < len(logits):
        kept[logits < logits.topk(top_k).values[-1]] = -torch.inf
    expected = torch.softmax(kept / temperature, dim=-1)
    draws = 20_000
    uniforms = (torch.arange(draws) + 0.5) / draws
    ids = sample(logits.float().expand(draws, -1), temperature, top_k, uniforms)
    frequency = torch.bincount(ids, minlength=len(logits)) / draws
    assert (frequency - expected).abs().max() < 2 / draws * len(logits)


def test_temperature_zero_is_greedy():
    logits = torch.randn(6, 50, generator=torch.Generator().manual_seed(0))
    assert torch.equal(sample(logits, 0.0, 50, torch.rand(6)), logits.argmax(-1))


def test_the_largest_uniform_stays_in_range():
    logits = torch.zeros(1, 300)
    almost_one = torch.tensor([np.nextafter(np.float32(1), np.float32(0))])
    assert 0 <= int(sample(logits, 1.0, 0, almost_one)) < 300


def test_a_masked_id_is_never_drawn():
    logits = torch.zeros(1000, 4)
    logits[:, 2] = -torch.inf
    ids = sample(logits, 1.0, 0, torch.linspace(0, 1 - 1e-6, 1000))
    assert set(ids.tolist()) == {0, 1, 3}


def test_a_row_does_not_depend_on_its_neighbours():
    logits = torch.randn(8, 512, generator=torch.Generator().manual_seed(3))
    uniforms = torch.rand(8, generator=torch.Generator().manual_seed(4))
    together = sample(logits, 0.7, 50, uniforms)
    alone = torch.cat([sample(logits[i : i + 1], 0.7, 50, uniforms[i : i + 1]) for i in range(8)])
    assert torch.equal(together, alone)
