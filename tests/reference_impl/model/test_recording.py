"""A recording gives what its function gives, for other sizes too, and touches no tensor twice."""

from __future__ import annotations

import pytest
import torch

from reference_impl.model.kv_cache import SlotCache
from reference_impl.model.predictor_strategies import KvCacheStrategy, expand, recorded_frame
from reference_impl.model.recording import Recording
from reference_impl.model.sampling import Draw


def test_the_function_is_called_once_and_replayed():
    calls = []

    def double(x):
        calls.append(len(x))
        return 2 * x

    recording = Recording(double)
    for size in (3, 1, 7):
        x = torch.arange(size)
        assert torch.equal(recording(x), 2 * x)
    assert calls == [3]


def test_what_is_changed_in_place_changes_once_at_the_first_call_too():
    def count(counter):
        counter += 1
        return counter * 1

    recording, counter = Recording(count), torch.zeros(2)
    assert [recording(counter)[0].item() for _ in range(3)] == [1, 2, 3]


def test_a_method_of_a_module_can_be_recorded(tiny):
    rows = torch.randn(2, tiny.config.talker.transformer.hidden_size)
    assert torch.equal(Recording(tiny.talker.codec_head.forward)(rows), tiny.talker.codec_head(rows))


@pytest.mark.parametrize("first", [1, 2])
def test_a_frame_recorded_with_some_rows_holds_for_any(tiny, first):
    predictor, draw = tiny.predictor, Draw(0.7, 50)
    generator = torch.Generator().manual_seed(1)
    recording = recorded_frame(predictor, draw)
    with torch.inference_mode():
        for rows in (first, 1, 2, 3, 5):
            hidden = torch.randn(rows, tiny.config.talker.transformer.hidden_size, generator=generator)
            code0 = torch.randint(512, (rows,), generator=generator)
            uniforms = torch.rand(rows, 16, generator=generator)
            plain = expand(predictor, KvCacheStrategy(predictor, rows), hidden, code0, uniforms, draw)
            assert torch.equal(recording(hidden, code0, uniforms), plain)
            assert len(plain.unique()) > rows


def test_the_recorded_talker_step_fills_the_same_cache(tiny, monkeypatch):
    talker, config = tiny.talker, tiny.config.talker.transformer
    plain, replayed = (
        SlotCache(config.num_layers, 3, config.num_kv_heads, 40, config.head_dim, tiny.device, tiny.dtype)
        for _ in range(2)
    )
    generator = torch.Generator().manual_seed(2)
    recording = Recording(talker._step)
    with torch.inference_mode():
        for lengths in ([0], [1, 0, 0], [2, 1, 1], [3, 2, 33]):
            embeds = torch.randn(len(lengths), config.hidden_size, generator=generator)
            behind = torch.tensor(lengths)
            span = max(lengths) + 1
            expected = talker.decode(embeds, behind, plain, behind, span)
            with monkeypatch.context() as patched:
                patched.setattr(talker, "step", recording)
                assert torch.equal(talker.decode(embeds, behind, replayed, behind, span), expected)
    assert torch.equal(plain.keys, replayed.keys)
    assert torch.equal(plain.values, replayed.values)
    assert plain.keys.any()
