"""The step-by-step code predictor against a plain teacher-forced pass over the whole frame."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from reference_impl.layers import rotate


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


def test_greedy_codes_are_the_argmax_of_the_plain_pass(tiny):
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(5, 320, generator=generator)
    code0 = torch.randint(0, 512, (5,), generator=generator)
    cache = tiny.predictor.new_cache(8)
    with torch.inference_mode():
        codes = tiny.predictor.expand(hidden, code0, torch.zeros(5, 16), cache, 0.0, 0)
        logits = plain_logits(tiny.predictor, hidden, codes, tiny.talker.codec_embedding.weight)
    assert torch.equal(codes[:, 0], code0)
    assert torch.equal(codes[:, 1:], logits.argmax(-1))


def test_rows_do_not_depend_on_neighbours_or_on_the_frame_before(tiny):
    """The faults this guards against: a shared buffer, a stale row, a broadcast over the batch."""
    generator = torch.Generator().manual_seed(1)
    hidden = torch.randn(6, 320, generator=generator)
    code0 = torch.randint(0, 512, (6,), generator=generator)
    uniforms = torch.rand(6, 16, generator=generator)
    cache = tiny.predictor.new_cache(6)
    with torch.inference_mode():
        tiny.predictor.expand(hidden.flip(0), code0.flip(0), uniforms, cache, 0.7, 50)
        together = tiny.predictor.expand(hidden, code0, uniforms, cache, 0.7, 50)
        for row in range(6):
            one = slice(row, row + 1)
            alone = tiny.predictor.expand(hidden[one], code0[one], uniforms[one], tiny.predictor.new_cache(1), 0.7, 50)
            assert torch.equal(together[one], alone)


def test_embed_frame_is_the_sum_of_sixteen_tables(tiny):
    codes = torch.randint(0, 512, (3, 16), generator=torch.Generator().manual_seed(2))
    with torch.inference_mode():
        found = tiny.predictor.embed_frame(codes, tiny.talker.codec_embedding.weight)
        expected = tiny.talker.codec_embedding.weight[codes[:, 0]].clone()
        for group in range(1, 16):
            expected += tiny.predictor.embeddings[group - 1][codes[:, group]]
    assert found.shape == (3, 320)
    assert (found - expected).abs().max() < 1e-5
