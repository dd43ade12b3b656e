"""Streaming Code2Wav against its whole-sequence decode, and mutations that must be noticed."""

from __future__ import annotations

import pytest
import torch

from reference_impl.model.code2wav_layers import CausalConv, CausalTransposedConv, WindowLayer

FRAMES = 60  # more than window (8) + receptive field (10 frames) + the largest chunk


@pytest.fixture(scope="module")
def codes(tiny):
    generator = torch.Generator().manual_seed(7)
    return torch.randint(0, tiny.config.code2wav.codebook_size, (1, 16, FRAMES), generator=generator)


@pytest.fixture(scope="module")
def whole(tiny, codes):
    with torch.inference_mode():
        return tiny.code2wav.decode(codes)[0]


def stream(code2wav, codes, sizes, state=None, rows=slice(0, 1)):
    """Push the frames in chunks of the given sizes, the last size repeated."""
    state = state or code2wav.new_state(1)
    pieces, start, index = [], 0, 0
    with torch.inference_mode():
        while start < codes.shape[-1]:
            size = sizes[min(index, len(sizes) - 1)]
            pieces.append(code2wav.push(codes[..., start : start + size], state, rows)[0])
            start, index = start + size, index + 1
    return torch.cat(pieces)


@pytest.mark.parametrize("sizes", [(1,), (2,), (7,), (24,), (25,), (1, 2, 4, 8), (59,), (60,)])
def test_stream_equals_whole_decode(tiny, codes, whole, sizes):
    streamed = stream(tiny.code2wav, codes, sizes)
    assert streamed.shape == (1920 * FRAMES,)
    assert (streamed - whole).abs().max() < 1e-5
    assert whole.std() > 0.01  # the comparison is not one of silence


def test_batched_rows_equal_single_streams(tiny, codes, whole):
    other = codes.flip(-1)
    state = tiny.code2wav.new_state(4)
    rows = torch.tensor([3, 1])
    pieces = []
    with torch.inference_mode():
        for start in range(0, FRAMES, 6):
            chunk = torch.cat([codes, other])[..., start : start + 6]
            pieces.append(tiny.code2wav.push(chunk, state, rows))
    both = torch.cat(pieces, dim=-1)
    assert (both[0] - whole).abs().max() < 1e-5
    assert (both[1] - tiny.code2wav.decode(other)[0]).abs().max() < 1e-5


def test_streams_may_stand_at_different_frames(tiny, codes, whole):
    """A stream that joins later is not affected by its neighbour's position."""
    state = tiny.code2wav.new_state(2)
    stream(tiny.code2wav, codes[..., :13], (13,), state, slice(1, 2))
    with torch.inference_mode():
        first = tiny.code2wav.push(torch.cat([codes[..., :8], codes[..., 13:21]]), state, torch.tensor([0, 1]))
    assert (first[0] - whole[: 8 * 1920]).abs().max() < 1e-5
    assert (first[1] - whole[13 * 1920 : 21 * 1920]).abs().max() < 1e-5


def test_reset_forgets_the_stream_before(tiny, codes, whole):
    state = tiny.code2wav.new_state(1)
    stream(tiny.code2wav, codes.flip(-1), (9,), state)
    state.reset(0)
    assert (stream(tiny.code2wav, codes, (9,), state) - whole).abs().max() < 1e-5


def test_strictly_causal(tiny, codes, whole):
    changed = codes.clone()
    changed[..., 30:] = (changed[..., 30:] + 1) % 512
    with torch.inference_mode():
        other = tiny.code2wav.decode(changed)[0]
    assert torch.equal(other[: 30 * 1920], whole[: 30 * 1920])
    assert (other[30 * 1920 :] - whole[30 * 1920 :]).abs().max() > 1e-3


@pytest.mark.parametrize("kind", [CausalConv, CausalTransposedConv, WindowLayer])
def test_losing_any_one_kind_of_history_is_noticed(tiny, codes, whole, kind, monkeypatch):
    """The equality above must be able to fail: drop the state of one kind of layer."""
    code2wav = tiny.code2wav
    names = {m.name for m in code2wav.modules() if isinstance(m, kind)}
    state = code2wav.new_state(1)
    keep = state.write
    monkeypatch.setattr(state, "write", lambda name, value: None if name in names else keep(name, value))
    assert (stream(code2wav, codes, (4,), state) - whole).abs().max() > 1e-4


def test_a_frozen_frame_counter_is_noticed(tiny, codes, whole):
    state = tiny.code2wav.new_state(1)
    with torch.inference_mode():
        pieces = []
        for start in range(0, FRAMES, 4):
            pieces.append(tiny.code2wav.push(codes[..., start : start + 4], state, slice(0, 1))[0])
            state.frames.zero_()
    assert (torch.cat(pieces) - whole).abs().max() > 1e-4


@pytest.mark.parametrize("sizes", [(1, 2, 3, 8), (8, 1, 5, 3)])
def test_a_recording_equals_the_plain_calls(tiny, codes, monkeypatch, sizes):
    """One recording serves all short calls and one all others, in whatever order the lengths come."""
    plain = stream(tiny.code2wav, codes, sizes, tiny.code2wav.new_state(3), slice(1, 2))
    monkeypatch.setattr(tiny.code2wav, "_recordings", {})
    tiny.code2wav.record()
    state = tiny.code2wav.new_state(3)
    assert torch.equal(stream(tiny.code2wav, codes, sizes, state, slice(1, 2)), plain)
    assert state.frames.tolist() == [0, FRAMES, 0]
    assert not any(tensor[0].any() or tensor[2].any() for tensor in state.tensors.values())


@pytest.mark.parametrize("sizes", [(1,), (3,)])
def test_short_calls_use_the_weights_as_they_are_scaled(small, sizes):
    """Random weights are set to a level after they are laid out."""
    generator = torch.Generator().manual_seed(3)
    frames = torch.randint(0, small.config.code2wav.codebook_size, (1, 16, 12), generator=generator)
    with torch.inference_mode():
        whole = small.code2wav.decode(frames)[0]
    assert (stream(small.code2wav, frames, sizes) - whole).abs().max() < 1e-4
    assert whole.std() > 0.01
