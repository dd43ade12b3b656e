"""The released prompt: its layout row by row, who may ask for what, and the trailing text in the decode loop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from reference_impl.engine.decode_batch import DecodeBatch
from reference_impl.engine_api import RequestRejected, SpeechRequest
from reference_impl.model.layers import rotate
from reference_impl.model.sampling import request_uniforms
from reference_impl.prompt.builder import PromptBuilder, forced_frames
from reference_impl.settings import ServerSettings

PAD, BOS, THINK, NOTHINK, THINK_BOS, THINK_EOS = 2148, 2149, 2154, 2155, 2156, 2157
ENGLISH, CHINESE, SICHUAN, RYAN, ERIC = 2050, 2055, 2062, 3061, 2875


@pytest.fixture(scope="module")
def spoken(small):
    """The small model as a loaded checkpoint would be: lengths not forced."""
    return replace(small, forced_lengths=False)


def request(text="Hello there.", voice="ryan", **more) -> SpeechRequest:
    return SpeechRequest("r", text, voice, seed=0, **more)


def built(model, speech_request):
    builder = PromptBuilder(model)
    (segment,) = builder.segments(speech_request)
    with torch.inference_mode():
        prompt = builder.build(segment)
    assert len(prompt.embeds) == segment.length
    assert prompt.positions.tolist() == list(range(segment.length)) and prompt.next_position == segment.length
    return builder, segment, prompt


def rows(model, *pairs):
    """Vectors of (text id, codec id) pairs; None: that side adds nothing."""
    total = []
    with torch.inference_mode():
        for text_id, codec_id in pairs:
            vector = torch.zeros(model.config.talker.transformer.hidden_size)
            if text_id is not None:
                vector = vector + model.talker.embed_text(torch.tensor(text_id))
            if codec_id is not None:
                vector = vector + model.talker.codec_embedding.weight[codec_id]
            total.append(vector)
    return torch.stack(total)


def ids(model, segment):
    text = model.config.text
    return list(segment.text_ids), text.tts_pad_id, text.tts_bos_id, text.tts_eos_id


def test_whole_text(spoken):
    _, segment, prompt = built(spoken, request(language="English"))
    text, pad, bos, eos = ids(spoken, segment)
    expected = rows(
        spoken,
        *((i, None) for i in segment.role_ids),
        *zip([pad] * 5 + [bos], [THINK, THINK_BOS, ENGLISH, THINK_EOS, RYAN, PAD], strict=True),
        *((i, PAD) for i in [*text, eos]),
        (pad, BOS),
    )
    assert torch.allclose(prompt.embeds, expected, atol=1e-5)
    assert len(prompt.trailing) == 0


def test_streaming_text(spoken):
    builder, segment, prompt = built(spoken, request(streaming_text=True))
    text, pad, bos, eos = ids(spoken, segment)
    expected = rows(
        spoken,
        *((i, None) for i in segment.role_ids),
        *zip([pad] * 4 + [bos], [NOTHINK, THINK_BOS, THINK_EOS, RYAN, PAD], strict=True),
        (text[0], BOS),
    )
    assert torch.allclose(prompt.embeds, expected, atol=1e-5)
    assert torch.allclose(prompt.trailing, rows(spoken, *((i, None) for i in [*text[1:], eos])), atol=1e-5)
    assert torch.allclose(builder.pad, rows(spoken, (pad, None))[0], atol=1e-6)


def test_an_instruction_comes_first(spoken):
    _, segment, prompt = built(spoken, request(instructions=" Slowly. "))
    plain = built(spoken, request())[2]
    assert len(prompt.embeds) == len(plain.embeds) + len(segment.instruction_ids)
    leading = rows(spoken, *((i, None) for i in segment.instruction_ids))
    assert torch.allclose(prompt.embeds[: len(leading)], leading, atol=1e-5)
    assert torch.allclose(prompt.embeds[len(leading) :], plain.embeds, atol=1e-5)
    deaf = replace(spoken, config=replace(spoken.config, text=replace(spoken.config.text, instructions=False)))
    assert torch.equal(built(deaf, request(instructions="Slowly."))[2].embeds, plain.embeds)


def test_several_at_once_are_what_each_is_alone(spoken):
    builder = PromptBuilder(spoken)
    requests = [
        request(),
        request("One, two, three, four.", streaming_text=True, language="english"),
        request("Well!", voice="eric", instructions="Slowly."),
        request("Yes.", streaming_text=True),
    ]
    segments = [segment for one in requests for segment in builder.segments(one)]
    with torch.inference_mode():
        alone = [builder.build(segment) for segment in segments]
        together = builder.build_all(segments)
    for one, other, segment in zip(alone, together, segments, strict=True):
        torch.testing.assert_close(other.embeds, one.embeds)
        torch.testing.assert_close(other.trailing, one.trailing)
        assert other.positions.tolist() == one.positions.tolist()
        assert other.next_position == one.next_position == segment.length


@pytest.mark.parametrize(
    ("voice", "language", "tag"),
    [
        ("ryan", None, None),
        ("ryan", "auto", None),
        ("ryan", "English", ENGLISH),
        ("ryan", "Chinese", CHINESE),
        ("eric", None, SICHUAN),
        ("eric", "chinese", SICHUAN),
        ("eric", "English", ENGLISH),
    ],
)
def test_language_tags_and_dialects(spoken, voice, language, tag):
    (segment,) = PromptBuilder(spoken).segments(request(voice=voice, language=language))
    assert segment.language_id == tag


def test_a_designed_voice_has_no_speaker_slot(spoken):
    design = replace(spoken, config=replace(spoken.config, text=replace(spoken.config.text, task="voice_design")))
    builder = PromptBuilder(design)
    assert builder.voices == ("default",)
    named = built(spoken, request())[2]
    prompt = built(design, request(voice="default"))[2]
    assert len(prompt.embeds) == len(named.embeds) - 1


@pytest.mark.parametrize(
    ("changes", "param"),
    [({"voice": "nobody"}, "voice"), ({"language": "Klingon"}, "language"), ({"text": "  \n "}, "input")],
)
def test_what_cannot_be_spoken_names_the_field(spoken, changes, param):
    with pytest.raises(RequestRejected) as caught:
        PromptBuilder(spoken).segments(request(**changes))
    assert caught.value.param == param


def noise(seconds: float) -> np.ndarray:
    return (0.1 * np.random.default_rng(0).standard_normal(round(24000 * seconds))).astype(np.float32)


def cloned(**more) -> SpeechRequest:
    return request(voice="default", **{"reference_audio": noise(1.0), **more})


def test_a_recording_takes_the_speaker_slot(small_base):
    model = replace(small_base, forced_lengths=False)
    builder, _, prompt = built(model, cloned(streaming_text=False))
    vector = model.speaker_encoder.embed(torch.from_numpy(noise(1.0))[None])[0]
    pad = rows(model, (model.config.text.tts_pad_id, None))[0]
    assert torch.allclose(prompt.embeds[6], vector + pad, atol=1e-5)  # behind the role and three tags
    assert prompt.reference_codes is None
    assert builder.segments(cloned())[0].streaming_text  # what Base checkpoints do unless told otherwise


@pytest.mark.parametrize("reference_text", ["Hi.", "A long reference text, " * 3])
def test_in_context_rows_are_sums_of_text_and_codes(small_base, reference_text):
    model = replace(small_base, forced_lengths=False)
    audio = cloned(reference_text=reference_text)
    _, segment, prompt = built(model, audio)
    codes = prompt.reference_codes
    assert codes.shape == (13, 16) == (segment.reference_frames, 16)
    text, pad, _, eos = ids(model, segment)
    spoken_ids = [*segment.reference_ids, *text, eos]
    with torch.inference_mode():
        sums = model.predictor.embed_frame(codes, model.talker.codec_embedding.weight)
    start = rows(model, (None, BOS))
    side = torch.cat([start, sums])
    texts = rows(model, *((i, None) for i in (spoken_ids + [pad] * 14)[:14]))
    assert torch.allclose(prompt.embeds[-14:], side + texts, atol=1e-4)
    rest = spoken_ids[14:]
    assert len(prompt.trailing) == len(rest)
    if rest:
        assert torch.allclose(prompt.trailing, rows(model, *((i, None) for i in rest)), atol=1e-5)
    whole = built(model, cloned(reference_text=reference_text, streaming_text=False))[2]
    assert torch.allclose(whole.embeds[-14:], side + rows(model, (pad, None)), atol=1e-4)


@pytest.mark.parametrize(
    "audio",
    [
        None,
        noise(0.1),
        noise(1.0).astype(np.float64),
        noise(1.0)[None],
        np.full(24000, np.nan, np.float32),
        np.full(24000, -1e18, np.float32),
        noise(61),
    ],
    ids=["none", "short", "float64", "stereo", "nan", "loud", "long"],
)
def test_a_recording_that_cannot_be_cloned_names_the_field(small_base, audio):
    with pytest.raises(RequestRejected) as caught:
        PromptBuilder(small_base).segments(cloned(reference_audio=audio))
    assert caught.value.param == "ref_audio"


def test_forced_lengths_follow_the_number_of_characters(small):
    assert [forced_frames("x" * n, small.config) for n in (1, 2, 14, 28, 100)] == [2, 2, 12, 25, 89]
    assert PromptBuilder(small).segments(request("x" * 28))[0].forced_frames == 25


def plain_states(model, inputs):
    """Hidden states [S, H] of the talker's stack, written without any of the caching code."""
    stack, config = model.talker.stack, model.config.talker.transformer
    length, heads, kv, dim = len(inputs), config.num_heads, config.num_kv_heads, config.head_dim
    cos, sin = stack.rotary(torch.arange(length))
    x = inputs
    for layer in stack.layers:
        q, k, v = layer.qkv_proj(layer.input_layernorm(x)).split([heads * dim, kv * dim, kv * dim], dim=-1)
        q = rotate(layer.q_norm(q.view(length, heads, dim)), cos, sin).transpose(0, 1)
        k = rotate(layer.k_norm(k.view(length, kv, dim)), cos, sin).transpose(0, 1).repeat_interleave(heads // kv, 0)
        v = v.view(length, kv, dim).transpose(0, 1).repeat_interleave(heads // kv, 0)
        scores = (q @ k.transpose(1, 2)) / dim**0.5
        scores = scores.masked_fill(~torch.ones(length, length, dtype=torch.bool).tril(), -torch.inf)
        x = x + layer.o_proj((scores.softmax(-1) @ v).transpose(0, 1).reshape(length, heads * dim))
        gate, up = layer.gate_up_proj(layer.post_attention_layernorm(x)).chunk(2, dim=-1)
        x = x + layer.down_proj(F.silu(gate) * up)
    return stack.norm(x)


def plain_codes0(model, prompt, pad, frames, penalty):
    """Codebook 0 of a greedy utterance whose frames are ``frames`` [T, 16], each step from the whole sequence."""
    inputs, found, seen = prompt.embeds, [], set()
    for step in range(len(frames)):
        logits = model.talker.codec_head(plain_states(model, inputs)[-1])
        for code in seen:
            logits[code] = logits[code] / penalty if logits[code] > 0 else logits[code] * penalty
        logits[2048:] = -torch.inf
        found.append(int(logits.argmax()))
        seen.add(found[-1])
        summed = model.predictor.embed_frame(frames[step : step + 1], model.talker.codec_embedding.weight)[0]
        coming = prompt.trailing[step] if step < len(prompt.trailing) else pad
        inputs = torch.cat([inputs, (summed + coming)[None]])
    return found


def test_the_decode_loop_adds_each_rows_own_text_and_penalises_its_own_codes(spoken):
    """Three rows of different prompts and trailing lengths, one leaving early, against whole-sequence passes."""
    builder = PromptBuilder(spoken)
    texts = ("One two three four five six seven.", "Hi.", "A b c d e.")
    settings = ServerSettings(max_batch=3, max_seq_len=64, temperature=0.0, predictor_temperature=0.0)
    with torch.inference_mode():
        batch = DecodeBatch(spoken, settings, 64, builder.pad)
        prompts = []
        for i, text in enumerate(texts):
            (segment,) = builder.segments(request(text, streaming_text=i != 1))
            prompts.append(builder.build(segment))
            # nothing ends: the end token is masked
            batch.prefill(batch.allocate_slot(request_uniforms(0, 32, 16)), prompts[-1], forced_frames=100)
        first = [batch.step()[:, :16] for _ in range(4)]
        assert batch.free_slot(0) == 2  # the last row moves into its place
        rest = [batch.step()[:, :16] for _ in range(6)]
        together = {
            0: np.stack([f[0] for f in first]),
            1: np.stack([f[1] for f in first + rest]),
            2: np.stack([f[2] for f in first] + [f[0] for f in rest]),
        }
        for i, frames in together.items():
            expected = plain_codes0(spoken, prompts[i], builder.pad, torch.from_numpy(frames), penalty=1.05)
            assert frames[:, 0].tolist() == expected
