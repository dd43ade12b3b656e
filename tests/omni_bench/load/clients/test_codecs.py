"""Taking answers apart: the same units however they were cut, and not a byte lost of what no fault changes."""

from __future__ import annotations

import base64
import json

import pytest

from omni_bench.load.clients import sse
from omni_bench.load.clients.openai_chat_audio import ChatCodec
from omni_bench.load.clients.openai_speech import SampleCodec
from omni_bench.load.clients.openai_speech_sse import SpeechEventCodec
from omni_bench.load.clients.openai_speech_ws import MessageCodec
from reference_impl.http.framing import wav_header

PCM = bytes(range(1, 41))


def units(codec, *data):
    return [unit for one in data for unit in codec.feed(one)] + list(codec.end())


def event(value, *more, end=b"\n"):
    return end.join([*more, b"data: " + json.dumps(value).encode(), b"", b""])


def base64_of(data):
    return base64.b64encode(data).decode()


def delta(pcm, **fields):
    return event({"type": "speech.audio.delta", "audio": base64_of(pcm), **fields})


def chunk(modality, fields, **choice):
    return event({"modality": modality, "choices": [{"index": 0, "delta": fields, **choice}]})


def value_of(wire):
    (line,) = [line for line in wire.splitlines() if line.startswith(b"data: ")]
    return json.loads(line[6:])


# --- samples


def test_bare_samples_pass_chunk_by_chunk():
    found = units(SampleCodec(), b"ab", b"cde")
    assert [(unit.wire, unit.pcm, unit.with_pcm(b"x").wire) for unit in found] == [
        (b"ab", b"ab", b"x"),
        (b"cde", b"cde", b"x"),
    ]


def test_samples_that_begin_like_a_header_are_held_until_it_is_clear():
    assert [unit.pcm for unit in units(SampleCodec(), b"R", b"IFX")] == [b"RIFX"]
    assert [unit.pcm for unit in units(SampleCodec(), b"RI")] == [b"RI"]


@pytest.mark.parametrize("size", [None, len(PCM), 0])
def test_a_wav_at_every_cut_announces_no_size_and_ends_with_its_samples(size):
    header = wav_header(24_000, len(PCM) if size == len(PCM) else None)
    if size == 0:
        header = header[:-4] + bytes(4)
    whole = header + PCM + (b"LIST\x02\0\0\0ab" if size else b"")
    for cut in range(len(whole) + 1):
        found = units(SampleCodec(), whole[:cut], whole[cut:])
        assert b"".join(unit.pcm for unit in found) == PCM, cut
        assert b"".join(unit.wire for unit in found) == wav_header(24_000, None) + PCM, cut


def test_an_endless_header_passes_as_samples():
    endless = b"RIFF\xff\xff\xff\xffWAVE" + b"junk\0\0\0\0" * 10_000
    assert b"".join(unit.wire for unit in units(SampleCodec(), endless[:50_000], endless[50_000:])) == endless


# --- events

SPEECH = [
    b": hello\n\n",
    event({"type": "speech.audio.delta", "audio": base64_of(b"abcd"), "id": 7}, b"event: speech.audio.delta", b"id: 1"),
    event({"type": "speech.audio.delta", "audio": base64_of(wav_header(16_000, 2) + b"ef")}, end=b"\r\n"),
    event({"type": "speech.audio.delta", "audio": "%"}),
    event({"type": "speech.audio.delta", "audio": base64_of(wav_header(16_000, None))}),
    event({"type": "speech.audio.done"}, end=b"\r"),
    b"data: [DONE]\n\n",
]


def test_events_pass_as_they_came_however_they_were_cut():
    whole = b"".join(SPEECH) + b"data: half"
    for cut in range(len(whole)):
        found = units(SpeechEventCodec(), whole[:cut], whole[cut:])
        assert b"".join(unit.wire for unit in found) == whole, cut
        assert [unit.pcm for unit in found if unit.pcm] == [b"abcd", b"ef"], cut
        assert [unit.ends for unit in found].count(True) == 1, cut
    by_byte = units(SpeechEventCodec(), *(whole[at : at + 1] for at in range(len(whole))))
    assert b"".join(unit.wire for unit in by_byte) == whole


def test_an_event_around_other_samples():
    bare, container = (unit for unit in units(SpeechEventCodec(), *SPEECH) if unit.pcm)
    changed = bare.with_pcm(b"xy")
    assert changed.pcm == b"xy" and changed.wire.startswith(b"event: speech.audio.delta\nid: 1\ndata: {")
    assert value_of(changed.wire) == {"type": "speech.audio.delta", "audio": base64_of(b"xy"), "id": 7}
    payload = base64.b64decode(value_of(container.with_pcm(b"123456").wire)["audio"])
    assert payload == wav_header(16_000, 6) + b"123456", "it announces what it holds"


def test_a_container_without_a_size_stays_so():
    (unit,) = units(SpeechEventCodec(), delta(wav_header(16_000, None) + b"ab"))
    assert base64.b64decode(value_of(unit.with_pcm(b"1234").wire)["audio"]) == wav_header(16_000, None) + b"1234"


def test_an_event_beyond_all_measure_is_not_kept(monkeypatch):
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 100)
    codec = SpeechEventCodec()
    passed = [unit.wire for _ in range(30) for unit in codec.feed(b"x" * 10)]
    assert len(b"".join(passed)) == 220 and all(len(one) == 110 for one in passed)


@pytest.mark.parametrize(
    "wire", [b"data: [\n\n", b"data: 7\n\n", b"data: \xff\n\n", b"data: " + b"[" * 100_000 + b"\n\n", b"\n\n"]
)
@pytest.mark.parametrize("codec", [SpeechEventCodec, ChatCodec])
def test_what_is_no_event_passes(codec, wire):
    (unit,) = units(codec(), wire)
    assert unit.wire == wire and not unit.pcm and not unit.ends


def test_chunks_of_a_chat():
    text, last = chunk("text", {"content": "Hi"}), chunk("audio", {}, finish_reason="stop")
    metadata = {"frame_count": 1, "format": "wav"}
    audio = chunk("audio", {"content": base64_of(wav_header(24_000, 2) + b"ab")}, audio_metadata=metadata)
    found = units(ChatCodec(), text, audio, last, b"data: [DONE]\n\n")
    assert [unit.wire for unit in found] == [text, audio, last, b"data: [DONE]\n\n"]
    assert [unit.pcm for unit in found] == [b"", b"ab", b"", b""]
    assert [unit.own for unit in found] == [True, False, True, False]
    assert [unit.ends for unit in found] == [False, False, False, True]
    (choice,) = value_of(found[1].with_pcm(b"abcdef").wire)["choices"]
    assert base64.b64decode(choice["delta"]["content"]) == wav_header(24_000, 6) + b"abcdef"
    assert choice["audio_metadata"] == {"frame_count": 3, "format": "wav"}


def test_words_beside_audio_become_a_chunk_of_their_own():
    both = chunk(None, {"audio": {"id": "a", "data": base64_of(b"ab"), "transcript": "Hi"}})
    words, audio = units(ChatCodec(), both)
    assert words.own and not words.pcm and audio.pcm == b"ab"
    deltas = [value_of(unit.wire)["choices"][0]["delta"] for unit in (words, audio, audio.with_pcm(b"x"))]
    assert deltas == [
        {"audio": {"id": "a", "transcript": "Hi"}},
        {"audio": {"id": "a", "data": base64_of(b"ab")}},
        {"audio": {"id": "a", "data": base64_of(b"x")}},
    ]
    alone = chunk(None, {"audio": {"data": base64_of(b"ab")}})
    assert [unit.wire for unit in units(ChatCodec(), alone)] == [alone]


@pytest.mark.parametrize("choices", [None, [], [7], {"a": 1}, [{"delta": 7}], [{"delta": {"audio": 7}}], [{}]])
def test_chunks_that_are_none_pass(choices):
    wire = event({"modality": "audio", "choices": choices})
    (unit,) = units(ChatCodec(), wire)
    assert unit.wire == wire and not unit.pcm


# --- messages


def test_messages():
    start, done, over = (json.dumps({"type": kind}) for kind in ("audio.start", "audio.done", "session.done"))
    as_text = json.dumps({"type": "audio.chunk", "audio_b64": base64_of(b"cd"), "timestamps": [1]})
    codec = MessageCodec()
    data = [start, b"ab", b"", wav_header(24_000, None) + b"xy", as_text, "{", done]
    found = units(codec, *data)
    found += units(codec, over)
    assert found[-1].last and [unit.wire for unit in found] == [*data, over]
    assert [unit.pcm for unit in found] == [b"", b"ab", b"", b"xy", b"cd", b"", b"", b""]
    assert [unit.ends for unit in found] == [False] * 6 + [True, False]
    assert [unit.last for unit in found] == [False] * 7 + [True]
    assert found[3].with_pcm(b"z").wire == wav_header(24_000, None) + b"z"
    assert json.loads(found[4].with_pcm(b"z").wire) == {
        "type": "audio.chunk",
        "audio_b64": base64_of(b"z"),
        "timestamps": [1],
    }


def test_a_size_that_faults_change_is_not_sent_on():
    (unit,) = units(MessageCodec(), '{"type": "audio.done", "total_bytes": 9, "sentence_index": 0}')
    assert unit.ends and json.loads(unit.wire) == {"type": "audio.done", "sentence_index": 0}


def test_a_byte_order_mark_before_the_first_event_is_no_line_of_it():
    wire = b"\xef\xbb\xbf" + delta(PCM)
    (unit,) = units(SpeechEventCodec(), wire)
    assert unit.wire == wire and unit.pcm == PCM
    changed = unit.with_pcm(b"\0\0").wire
    assert changed.startswith(b"data: ") and value_of(changed)["audio"] == base64_of(b"\0\0")
