"""The sampler draws from the distribution it says, and its numbers depend on the seed alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from reference_impl.model.config import SamplingConfig
from reference_impl.model.sampling import (
    Draw,
    draw_by_id,
    effective_sampling,
    penalise,
    predictor_draw,
    request_uniforms,
    restrict,
    talker_draw,
)
from reference_impl.settings import ServerSettings


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
    ids = Draw(temperature, top_k)(logits.float().expand(draws, -1), uniforms)
    frequency = torch.bincount(ids, minlength=len(logits)) / draws
    assert (frequency - expected).abs().max() < 2 / draws * len(logits)


def test_temperature_zero_is_greedy():
    logits = torch.randn(6, 50, generator=torch.Generator().manual_seed(0))
    assert torch.equal(Draw(0.0, 50)(logits, torch.rand(6)), logits.argmax(-1))


def test_the_largest_uniform_stays_in_range():
    logits = torch.zeros(1, 300)
    almost_one = torch.tensor([np.nextafter(np.float32(1), np.float32(0))])
    assert 0 <= int(Draw(1.0, 0)(logits, almost_one)) < 300


def test_a_masked_id_is_never_drawn():
    logits = torch.zeros(1000, 4)
    logits[:, 2] = -torch.inf
    ids = Draw(1.0, 0)(logits, torch.linspace(0, 1 - 1e-6, 1000))
    assert set(ids.tolist()) == {0, 1, 3}


def test_a_row_does_not_depend_on_its_neighbours():
    logits = torch.randn(8, 512, generator=torch.Generator().manual_seed(3))
    uniforms = torch.rand(8, generator=torch.Generator().manual_seed(4))
    together = Draw(0.7, 50)(logits, uniforms)
    alone = torch.cat([Draw(0.7, 50)(logits[i : i + 1], uniforms[i : i + 1]) for i in range(8)])
    assert torch.equal(together, alone)


def plain_distribution(logits, seen, temperature, top_k, top_p, penalty):
    """One row of probabilities by the definitions, with Python numbers."""
    values = [v if i not in seen else (v / penalty if v > 0 else v * penalty) for i, v in enumerate(logits)]
    values = [v / temperature for v in values]
    if top_k:
        least = sorted(values, reverse=True)[top_k - 1]
        values = [v if v >= least else -math.inf for v in values]
    weights = [math.exp(v) for v in values]
    order = sorted(range(len(weights)), key=lambda i: -weights[i])
    kept, total = set(), 0.0
    for i in order:
        if total < top_p * sum(weights):  # the one that crosses the threshold stays
            kept.add(i)
            total += weights[i]
    return [w / total if i in kept else 0.0 for i, w in enumerate(weights)]


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p", "penalty"),
    [(0.9, 5, 1.0, 1.05), (1.3, 0, 0.7, 1.0), (0.5, 8, 0.9, 2.0), (1.0, 1, 1.0, 0.5), (0.7, 100, 0.3, 1.2)],
)
def test_filters_by_their_definitions(temperature, top_k, top_p, penalty):
    logits = torch.randn(3, 20, generator=torch.Generator().manual_seed(0)) * 2
    seen = torch.zeros(3, 20, dtype=torch.bool)
    seen[:, ::3] = True
    found = restrict(penalise(logits, seen, penalty), temperature, min(top_k, 20), top_p).softmax(-1)
    for row in range(3):
        expected = plain_distribution(
            logits[row].tolist(), range(0, 20, 3), temperature, min(top_k, 20), top_p, penalty
        )
        assert found[row].tolist() == pytest.approx(expected, abs=1e-6)


def test_ties_with_the_last_of_the_top_k_stay():
    logits = torch.tensor([[3.0, 1.0, 2.0, 2.0, 2.0, 0.0]])
    assert torch.isfinite(restrict(logits, 1.0, 2, 1.0)).tolist() == [[True, False, True, True, True, False]]


def test_an_id_without_probability_is_never_drawn():
    logits = torch.full((3, 6), -math.inf)
    logits[:, 2] = 0.0
    logits[:, 4] = 1.0
    uniforms = torch.tensor([0.0, 0.5, 1 - 2**-24])
    assert draw_by_id(logits, uniforms).tolist() == [2, 4, 4]
    assert Draw(1.0, 0, 0.01)(logits, uniforms).tolist() == [4, 4, 4]


def test_draws_by_id_follow_the_distribution():
    logits = torch.tensor([0.0, 1.0, -math.inf, 2.0]).expand(20000, 4)
    uniforms = torch.rand(20000, generator=torch.Generator().manual_seed(1))
    shares = draw_by_id(logits, uniforms).bincount(minlength=4) / 20000
    assert torch.allclose(shares, logits[0].softmax(-1), atol=0.015)


def test_settings_override_what_the_checkpoint_says():
    config = SamplingConfig(top_k=7, repetition_penalty=1.1)
    assert effective_sampling(config, ServerSettings()) == config
    changed = effective_sampling(config, ServerSettings(temperature=0.0, predictor_top_p=0.5))
    assert (changed.temperature, changed.top_k, changed.predictor_top_p) == (0.0, 7, 0.5)
    assert predictor_draw(changed) == Draw(0.9, 50, 0.5)
    assert talker_draw(changed)(torch.tensor([[1.0, 3.0, 2.0]]), torch.tensor([0.9])).tolist() == [1]
