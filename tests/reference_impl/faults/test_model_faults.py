"""Every fault in the model: what goes wrong, from which concurrency on, and what stays right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from omni_bench.accuracy.signal.audio_faults import audio_faults
from reference_impl.faults.audio import GRAPH_FRAMES
from reference_impl.faults.catalogue import FAULTS, MODEL

FRAME = 1920
NEEDS_COMPANY = [f.name for f in FAULTS.values() if f.kind == MODEL and f.min_concurrency > 1]


def pcm_of(chunk) -> np.ndarray:
    return np.frombuffer(chunk.pcm, "<i2")


def same(one, other) -> bool:
    return np.array_equal(one.codes, other.codes)


def first_difference(one, other) -> tuple[int, int]:
    frame, book = np.argwhere(one.codes != other.codes)[0]
    return int(frame), int(book)


def test_the_clean_engine_says_the_same_alone_and_in_company(clean, expected):
    for index in range(3):
        alone = clean.alone(index)
        assert same(alone, expected[index])
        assert np.array_equal(alone.pcm, expected[index].pcm)


@pytest.mark.parametrize("name", NEEDS_COMPANY)
def test_alone_these_are_clean_to_the_last_bit_request_after_request(broken, expected, name):
    speak = broken(name)
    for index in (0, 1):
        spoken = speak.alone(index)
        assert same(spoken, expected[index])
        assert np.array_equal(spoken.pcm, expected[index].pcm)


def test_shared_proj_buf_gives_all_but_the_last_row_its_embeddings(broken, expected):
    spoken = broken("shared_proj_buf").crowd()
    assert same(spoken[2], expected[2])
    for index in (0, 1):
        # codes 0 and 1 need nothing that was read back
        assert first_difference(spoken[index], expected[index]) >= (0, 2)


def test_broadcast_add_gives_every_row_the_rest_of_row_0(broken, expected):
    spoken = broken("broadcast_add").crowd()
    assert same(spoken[0], expected[0])
    for index in (1, 2):
        frame, _ = first_difference(spoken[index], expected[index])
        assert 1 <= frame <= 8


def test_broadcast_add_also_adds_the_text_of_row_0(small_config, small):
    from reference_impl.engine.decode_batch import DecodeBatch
    from reference_impl.faults.batches import BroadcastBatch
    from reference_impl.prompt.builder import TalkerPrompt
    from reference_impl.settings import ServerSettings

    hidden = small_config.talker.transformer.hidden_size
    settings = ServerSettings(preset="tiny", max_batch=3, max_seq_len=32)
    generator = torch.Generator().manual_seed(1)
    prompts = [
        TalkerPrompt(
            torch.randn(4, hidden, generator=generator),
            torch.arange(4),
            4,
            trailing=torch.randn(5, hidden, generator=generator),
        )
        for _ in range(3)
    ]
    inputs = []
    with torch.inference_mode():
        for kind in (DecodeBatch, BroadcastBatch):
            batch = kind(small, settings, 20, torch.zeros(hidden))
            for prompt in prompts:
                batch.prefill(batch.allocate_slot(np.full((20, 16), 0.5, dtype=np.float32)), prompt)
            inputs.append(batch._next_inputs(torch.zeros(3, 16, dtype=torch.long), slice(0, 3)))
    right, wrong = inputs
    assert torch.equal(wrong[0], right[0])
    for row in (1, 2):  # the same codes everywhere, so that only the text tells rows apart
        assert not torch.allclose(wrong[row], right[row], atol=0.1)
        assert torch.allclose(wrong[row], right[0], atol=1e-5)


def test_graph_pool_overwrites_the_first_half_with_the_second(broken, expected):
    spoken = broken("graph_pool").crowd()  # halves of 2 rows and 1
    assert first_difference(spoken[0], expected[0])[0] <= 1
    assert same(spoken[1], expected[1]) and same(spoken[2], expected[2])


def test_noncausal_mask_is_wrong_alone_in_the_first_frame(broken, expected):
    frame, book = first_difference(broken("noncausal_mask").alone(0), expected[0])
    assert frame <= 1 and book > 0  # codebook 0 of the first frame is the talker's


def test_stale_rows_depends_on_who_spoke_before(broken, ask, expected):
    speak = broken("stale_rows")
    after = []
    for other in (1, 2):
        speak(ask(other, max_new_tokens=6))
        after.append(speak(ask(0, max_new_tokens=6))[0].codes)
    assert not np.array_equal(after[0], expected[0].codes[:6])
    assert not np.array_equal(after[0], after[1])


def test_pinned_alias_sends_the_samples_that_were_copied_last(broken, expected):
    spoken = broken("pinned_alias").crowd()
    assert [same(*pair) for pair in zip(spoken, expected, strict=True)] == [True] * 3
    sizes = [chunk.frames for chunk in spoken[0].chunks]
    assert sizes == [1, 2, 4, 8, 2]
    # between chunk k and k+1 of the first request the others' chunks k were copied
    assert all(np.array_equal(pcm_of(spoken[0].chunks[k]), pcm_of(expected[2].chunks[k])) for k in range(4))
    assert np.array_equal(pcm_of(spoken[0].chunks[4]), pcm_of(expected[0].chunks[4]))


def test_payload_view_speaks_the_codes_that_were_staged_last(broken, expected):
    spoken = broken("payload_view").crowd()
    assert [same(*pair) for pair in zip(spoken, expected, strict=True)] == [True] * 3
    swapped = 15 * FRAME  # all but the last chunk
    assert np.array_equal(spoken[0].pcm[:swapped], expected[2].pcm[:swapped])
    assert not np.array_equal(spoken[1].pcm[:swapped], expected[1].pcm[:swapped])


def test_graph_rng_draws_every_step_with_the_same_numbers_whatever_the_seed(broken, ask, expected):
    speak = broken("graph_rng")
    batch = speak.engine._batch
    first = speak.alone(0)
    assert not same(first, expected[0])
    assert same(first, speak(replace(ask(0), seed=99))[0])
    # the row decides: the same request behind two others draws otherwise
    crowd = speak(ask(1), ask(2, max_new_tokens=5), ask(0))
    assert not same(first, crowd[2])
    for row in range(3):  # also after rows have been moved
        assert (batch._uniforms[row] == batch._captured[row]).all()
    assert len(torch.unique(batch._captured, dim=0)) == 3


def test_lost_left_context_decodes_each_chunk_from_nothing(broken, expected):
    speak = broken("lost_left_context")
    spoken = speak.alone(0)
    assert same(spoken, expected[0])
    assert np.array_equal(pcm_of(spoken.chunks[0]), pcm_of(expected[0].chunks[0]))
    done = 0
    for chunk in spoken.chunks:
        codes = torch.from_numpy(spoken.codes[done : done + chunk.frames].T.astype(np.int64))[None]
        with torch.inference_mode():
            bare = speak.engine.model.code2wav.decode(codes)[0].numpy()
        assert np.abs(pcm_of(chunk) / 32767.0 - bare).max() < 1e-4
        done += chunk.frames
    assert not np.array_equal(spoken.pcm, expected[0].pcm)


def test_neighbour_slot_sends_the_end_to_whoever_got_the_row(broken, ask, expected):
    short, _, mover = broken("neighbour_slot")(ask(0, max_new_tokens=10), ask(1), ask(2))
    # the last row is moved into the place of the first request, which had chunks of 1, 2, 4 and 3 frames to come
    assert short.end.frames == 10 and sum(chunk.frames for chunk in short.chunks) < 10
    heard = [chunk.pcm for chunk in mover.chunks]
    assert expected[0].chunks[1].pcm in heard and expected[0].chunks[2].pcm in heard
    assert sum(chunk.frames for chunk in mover.chunks) > mover.end.frames
    total = sum(chunk.frames for one in (short, _, mover) for chunk in one.chunks)
    assert total == short.end.frames + _.end.frames + mover.end.frames


def test_ref_bleed_speaks_the_newest_reference_in_flight(broken, clean, ask):
    speak = broken("ref_bleed")
    assert speak.engine.capabilities.clones
    spoken = speak.crowd()
    right = clean(
        ask(0),
        ask(1, "An owl sat there. Please turn the loud music down now."),
        ask(2, "Seven boats left. She bought some apples and some pears."),
    )
    assert [same(*pair) for pair in zip(spoken, right, strict=True)] == [True] * 3
    assert not speak.engine._references


def test_ref_bleed_forgets_a_request_that_was_refused(broken, ask):
    from reference_impl.engine_api import RequestRejected

    speak = broken("ref_bleed")
    with pytest.raises(RequestRejected):
        speak(ask(0, "!!!"))
    assert not speak.engine._references


def test_padding_tail_sends_the_whole_buffer_at_the_end(broken, expected):
    spoken = broken("padding_tail").alone(0)
    assert same(spoken, expected[0])
    right = expected[0].pcm
    assert np.array_equal(spoken.pcm[: right.size], right)
    last = pcm_of(spoken.chunks[-1])
    assert last.size == GRAPH_FRAMES * FRAME
    # behind its own two frames: the utterance from its third frame on, once more
    assert np.array_equal(last[2 * FRAME : 15 * FRAME], right[2 * FRAME : 15 * FRAME])


def test_padding_tail_in_company_also_holds_others(broken, expected):
    spoken = broken("padding_tail").crowd()
    for one, right in zip(spoken, expected, strict=True):
        assert one.pcm.size == (15 + GRAPH_FRAMES) * FRAME
        assert np.array_equal(one.pcm[: right.pcm.size], right.pcm)


def test_stop_missed_babbles_over_three_times_the_speaking_time_and_ends(broken, clean, ask):
    text = "Yes, of course."
    request = ask(0, text, max_new_tokens=2048)
    right, wrong = clean(request)[0], broken("stop_missed")(request)[0]
    assert right.end.reason == "stop"
    assert audio_faults(right.pcm, 24000, text, "en") == ()
    assert wrong.end.reason == "length"
    assert "runaway" in audio_faults(wrong.pcm, 24000, text, "en")
    # the same speech up to the end that was missed
    assert np.array_equal(right.codes, wrong.codes[: len(right.codes)])


def test_empty_ok_ends_well_without_a_sample(broken, expected):
    spoken = broken("empty_ok").alone(0)
    assert same(spoken, expected[0])
    assert spoken.chunks and spoken.pcm.size == 0
