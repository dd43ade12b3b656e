"""Three ways to run the code predictor against each other and against a plain pass over the whole frame."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F

from reference_impl.model.layers import prepare_layers, rotate
from reference_impl.model.predictor_strategies import STRATEGIES, bucket, expand
from reference_impl.model.sampling import Draw
from reference_impl.settings import PREDICTOR_STRATEGIES

GREEDY, RANDOM = Draw(0.0, 0), Draw(0.7, 50)
# bfloat16 keeps 8 bits: a logit is off by up to this share of the largest one after three layers
BF16_TOLERANCE = 0.03


def plain_logits(predictor, hidden, codes, codec_embedding):
    """All 15 logits of each frame in one causal pass, written without any of the caching code.

    hidden [B, H], codes [B, 16] -> [B, 15, V].
    """
    tables = [codec_embedding, *predictor.embeddings[:-1]]
    inputs = [hidden] + [table[codes[:, i]] for i, table in enumerate(tables)]
    x = predictor.input_projection(torch.stack(inputs, dim=1))
    cos, sin = predictor.stack.rotary(torch.arange(16)[None])
    for layer in predictor.stack.layers:
        y = layer.input_layernorm(x)
        q, k, v = layer.qkv_proj(y).split([256, 128, 128], dim=-1)
        q = rotate(layer.q_norm(q.view(len(x), 16, 4, 64)), cos, sin).transpose(1, 2)
        k = rotate(layer.k_norm(k.view(len(x), 16, 2, 64)), cos, sin).transpose(1, 2).repeat_interleave(2, dim=1)
        v = v.view(len(x), 16, 2, 64).transpose(1, 2).repeat_interleave(2, dim=1)
        scores = (q @ k.transpose(-1, -2)) / 8.0
        scores = scores.masked_fill(~torch.ones(16, 16, dtype=torch.bool).tril(), -torch.inf)
        x = x + layer.o_proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(len(x), 16, 256))
        gate, up = layer.gate_up_proj(layer.post_attention_layernorm(x)).chunk(2, dim=-1)
        x = x + layer.down_proj(F.silu(gate) * up)
    return torch.einsum("bgh,gvh->bgv", predictor.stack.norm(x)[:, 1:], predictor.heads)


def frames(rows: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Hidden states [rows, 320], codes of codebook 0 and uniform numbers."""
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(rows, 320, generator=generator)
    code0 = torch.randint(0, 512, (rows,), generator=generator)
    return hidden, code0, torch.rand(rows, 16, generator=generator)


def test_the_settings_name_the_strategies():
    assert tuple(STRATEGIES) == PREDICTOR_STRATEGIES


@pytest.mark.parametrize("name", STRATEGIES)
def test_greedy_codes_are_the_argmax_of_the_plain_pass(tiny, name):
    hidden, code0, uniforms = frames(5, seed=0)
    with torch.inference_mode():
        codes = expand(tiny.predictor, STRATEGIES[name](tiny.predictor, 8), hidden, code0, uniforms, GREEDY)
        logits = plain_logits(tiny.predictor, hidden, codes, tiny.talker.codec_embedding.weight)
    assert torch.equal(codes[:, 0], code0)
    assert torch.equal(codes[:, 1:], logits.argmax(-1))


def test_all_strategies_agree_over_consecutive_batches_of_different_sizes(tiny):
    """The faults this guards against: rows, positions or a window left over from a larger batch before."""
    strategies = [make(tiny.predictor, 17) for make in STRATEGIES.values()]
    with torch.inference_mode():
        for seed, rows in enumerate((5, 1, 17, 2, 3, 16, 1)):
            hidden, code0, uniforms = frames(rows, 10 + seed)  # seeds without a draw within rounding of a tie
            for draw in (GREEDY, RANDOM):
                first, *others = (expand(tiny.predictor, s, hidden, code0, uniforms, draw) for s in strategies)
                assert all(torch.equal(first, other) for other in others), (rows, draw)


@pytest.mark.parametrize("name", STRATEGIES)
def test_rows_do_not_depend_on_neighbours_or_on_the_frame_before(tiny, name):
    """The faults this guards against: a shared buffer, a stale row, a broadcast over the batch."""
    hidden, code0, uniforms = frames(6, seed=1)
    together_in, alone_in = (STRATEGIES[name](tiny.predictor, 6) for _ in range(2))
    with torch.inference_mode():
        expand(tiny.predictor, together_in, hidden.flip(0), code0.flip(0), uniforms, RANDOM)
        together = expand(tiny.predictor, together_in, hidden, code0, uniforms, RANDOM)
        for row in range(6):
            one = slice(row, row + 1)
            alone = expand(tiny.predictor, alone_in, hidden[one], code0[one], uniforms[one], RANDOM)
            assert torch.equal(together[one], alone)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_frame_of_nan_leaves_nothing_behind(tiny, name):
    hidden, code0, uniforms = frames(4, seed=2)
    strategy = STRATEGIES[name](tiny.predictor, 4)
    with torch.inference_mode():
        before = expand(tiny.predictor, strategy, hidden, code0, uniforms, GREEDY)
        expand(tiny.predictor, strategy, torch.full_like(hidden, torch.nan), code0, uniforms, GREEDY)
        after = expand(tiny.predictor, strategy, hidden[:3], code0[:3], uniforms[:3], GREEDY)
    assert torch.equal(before[:3], after)


def test_buckets_are_powers_of_two():
    assert [bucket(n) for n in (1, 2, 3, 4, 5, 8, 9, 16, 17, 32, 33)] == [1, 2, 4, 4, 8, 8, 16, 16, 32, 32, 64]


def teacher_forced_logits(predictor, strategy, hidden, codes):
    """The logits [B, 15, V] along given codes [B, 16]."""
    states = [strategy.start(predictor.first_inputs(hidden, codes[:, 0]))]
    for group in range(2, 16):
        states.append(strategy.extend(predictor.input_of(codes[:, group - 1], group - 1), group))
    return torch.stack([predictor.logits(s, g) for g, s in enumerate(states, start=1)], dim=1)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_bf16_logits_on_cuda_agree_to_the_stated_tolerance(tiny):
    exact = copy.deepcopy(tiny.predictor).cuda()
    coarse = copy.deepcopy(tiny.predictor).cuda().bfloat16()
    prepare_layers(exact)
    prepare_layers(coarse)
    with torch.inference_mode():
        for seed, rows in enumerate((5, 1, 32, 3)):
            hidden, code0, uniforms = (x.cuda() for x in frames(rows, seed))
            codes = expand(exact, STRATEGIES["kv_cache"](exact, 32), hidden, code0, uniforms, GREEDY)
            expected = teacher_forced_logits(exact, STRATEGIES["kv_cache"](exact, 32), hidden, codes)
            for make in STRATEGIES.values():
                found = teacher_forced_logits(coarse, make(coarse, 32), hidden.bfloat16(), codes).float()
                assert (found - expected).abs().max() <= BF16_TOLERANCE * expected.abs().max()
