"""WAV, PCM and events as bytes."""

from __future__ import annotations

import base64
import io
import json
import wave

import pytest

from reference_impl.engine_api import Finished
from reference_impl.http.framing import RawFramer, SseFramer, audio_file, usage, wav_header

PCM = bytes(range(200))


def test_a_wav_file_is_read_by_the_standard_library():
    with wave.open(io.BytesIO(audio_file(PCM, "wav", 24000))) as reader:
        assert (reader.getnchannels(), reader.getsampwidth(), reader.getframerate()) == (1, 2, 24000)
        assert reader.readframes(1000) == PCM


def test_a_pcm_file_is_its_samples():
    assert audio_file(PCM, "pcm", 24000) == PCM


def test_a_header_of_unknown_size_has_44_bytes_and_all_ones():
    header = wav_header(24000, None)
    assert len(header) == 44
    assert header[4:8] == header[40:44] == b"\xff" * 4


def test_usage_adds_up():
    assert usage(Finished("stop", 10, 7)) == {"input_tokens": 7, "output_tokens": 10, "total_tokens": 17}


def test_a_raw_wav_stream_has_one_header_with_its_first_audio():
    framer = RawFramer("wav", 24000)
    assert framer.audio(PCM) == wav_header(24000, None) + PCM
    assert framer.audio(PCM) == PCM
    assert framer.done(Finished("stop", 1, 1)) == b""


def test_a_raw_wav_stream_without_audio_still_is_a_wav():
    assert RawFramer("wav", 24000).done(Finished("stop", 0, 1)) == wav_header(24000, None)


def test_a_raw_stream_has_no_place_for_an_error():
    assert RawFramer("pcm", 24000).failure({"message": "x"}) is None


@pytest.mark.parametrize(("response_format", "header"), [("pcm", b""), ("wav", wav_header(24000, None))])
def test_sse_deltas_hold_the_stream(response_format, header):
    framer = SseFramer(response_format, 24000)
    lines = (framer.audio(PCM) + framer.audio(PCM) + framer.done(Finished("stop", 2, 7))).decode().split("\n\n")
    events = [json.loads(line.removeprefix("data: ")) for line in lines if line]
    assert [event["type"] for event in events] == ["speech.audio.delta"] * 2 + ["speech.audio.done"]
    assert base64.b64decode(events[0]["audio"]) == header + PCM
    assert base64.b64decode(events[1]["audio"]) == PCM
    assert events[0]["response_format"] == response_format
    assert events[2]["usage"]["total_tokens"] == 9


def test_an_sse_error_is_an_event():
    framer = SseFramer("pcm", 24000)
    event = framer.failure({"message": "it broke\nbadly"})
    assert event.endswith(b"\n\n") and event.count(b"\n") == 2
    error = {"message": "it broke\nbadly", "partial_audio": False}
    assert json.loads(event[6:]) == {"type": "speech.audio.error", "error": error}
    framer.audio(PCM)
    error |= {"partial_audio": True, "action": "discard"}
    assert json.loads(framer.failure({"message": "it broke\nbadly"})[6:])["error"] == error
