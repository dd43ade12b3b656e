"""Recordings of every wire form, replayed at every split position: the same samples, the same text, each time."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
from dataclasses import dataclass
from itertools import pairwise

import pytest
import record_wire_forms as recorder
from hypothesis import given
from hypothesis import strategies as st
from repository import DATA

from omni_bench.load.clients import openai_speech_ws
from omni_bench.load.clients.decoder import AudioPart, TextPart, WireFailure
from omni_bench.load.clients.session import WireOptions
from omni_bench.load.clients.wire_forms import FORMS

FOLDER = DATA / "wire"
EXPECTED = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))
PCM = base64.b64decode(EXPECTED["pcm"])
NAMES = sorted(EXPECTED["forms"])
OPTIONS = WireOptions(sample_rate_hz=24_000, request_timeout_s=20.0, connect_timeout_s=5.0, max_audio_s=10.0)
DECODERS = {name: form.decoder for name, form in FORMS.items() if not form.is_socket}


@dataclass(frozen=True)
class Recording:
    """``chunks``: of the body as the server sent them; of a WebSocket, all frames in one piece."""

    name: str
    chunks: tuple[bytes, ...]

    @property
    def body(self):
        return b"".join(self.chunks)

    @property
    def expected(self):
        return EXPECTED["forms"][self.name]


def chunks_of(data):
    head, _, rest = data.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" not in head.lower():
        return (rest,)
    chunks = []
    while True:
        size, _, rest = rest.partition(b"\r\n")
        if not int(size, 16):
            return tuple(chunks)
        chunks.append(rest[: int(size, 16)])
        rest = rest[int(size, 16) + 2 :]


RECORDINGS = {name: Recording(name, chunks_of((FOLDER / f"{name}.http").read_bytes())) for name in NAMES}


class SocketReplay:
    """Frames put together as RFC 6455 has them, messages to the decoder. The whole client uses aiohttp for that."""

    def __init__(self):
        self.decoder = openai_speech_ws.SpeechMessages(OPTIONS)
        self._bytes = b""

    def feed(self, data, ends_chunk):
        self._bytes += data
        while (frame := self._frame()) is not None and not self.decoder.done:
            opcode, payload = frame
            if opcode in (1, 2):
                yield from self.decoder.feed(payload.decode() if opcode == 1 else payload)

    def _frame(self):
        """(opcode, payload) of the next whole frame: unmasked, as a server sends it; None if there is none."""
        if len(self._bytes) < 2:
            return None
        size, at = self._bytes[1], 2
        if size >= 126:
            at = 4 if size == 126 else 10
            size = int.from_bytes(self._bytes[2:at], "big")
        if len(self._bytes) < at + size:
            return None
        assert self._bytes[0] & 0x80, "a message in several frames"
        frame = self._bytes[0] & 0x0F, self._bytes[at : at + size]
        self._bytes = self._bytes[at + size :]
        return frame

    def end(self):
        assert self.decoder.done, "no session.done"
        return iter(())


def replay(recording, *cuts):
    """(samples of each part, text, error kind, decoder) after feeding the body in pieces that end at ``cuts``."""
    kind = recording.expected["kind"]
    replayed = SocketReplay() if kind == "openai_speech_ws" else DECODERS[kind](OPTIONS, None)
    decoder = getattr(replayed, "decoder", replayed)
    audio, text, error = [], [], None

    def take(parts):
        for part in parts:
            if isinstance(part, AudioPart):
                audio.append(part.pcm)
            elif isinstance(part, TextPart):
                text.append(part.text)

    body = recording.body
    try:
        for begin, end in pairwise([0, *cuts, len(body)]):
            if end > begin:
                take(replayed.feed(body[begin:end], True))
        take(replayed.end())
    except WireFailure as failure:
        error = failure.error.kind
    return audio, "".join(text), error, decoder


def check(recording, *cuts):
    expected = recording.expected
    audio, text, error, decoder = replay(recording, *cuts)
    pcm = b"".join(audio)
    where = f"{recording.name} cut at {cuts}"
    assert error == expected["error"], where
    assert pcm == PCM[: 2 * expected["samples"]], where
    if expected["samples"]:
        assert decoder.sample_rate_hz == EXPECTED["sample_rate_hz"], where
    if error is None:
        assert text == (expected["text"] or ""), where
    return audio, decoder


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_whole(name):
    recording = RECORDINGS[name]
    audio, decoder = check(recording)
    if name.startswith(("speech_sse", "chat", "socket")):  # an event's audio is a chunk, as the engine made it
        sizes = [len(pcm) // 2 for pcm in audio if pcm]
        assert sizes == recording.expected["chunk_samples"]
    if name in ("chat", "chat_openai", "chat_text"):
        assert decoder.completion_tokens == 8  # Hi|,| Zo|ë|!| Two| sentences|. as the server counts them
        assert decoder.server_id == "chatcmpl-recorded"


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_at_every_split_position(name):
    recording = RECORDINGS[name]
    for cut in range(1, len(recording.body)):
        check(recording, cut)


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_byte_by_byte_and_chunk_by_chunk(name):
    recording = RECORDINGS[name]
    check(recording, *range(1, len(recording.body)))
    ends, at = [], 0
    for chunk in recording.chunks[:-1]:
        at += len(chunk)
        ends.append(at)
    check(recording, *ends)


@pytest.mark.parametrize("name", [name for name in NAMES if EXPECTED["forms"][name]["error"] is None])
def test_a_recording_that_is_cut_short_never_passes_for_whole(name):
    """All forms but bare samples, whose end only the transport knows, say themselves when they are over."""
    recording = RECORDINGS[name]
    if name in ("speech_pcm", "speech_wav"):
        return
    body = recording.body
    for end in range(1, len(body), 7):
        short = Recording(name, (body[:end],))
        if name.startswith("socket"):
            replayed = SocketReplay()
            list(replayed.feed(short.body, True))
            assert not replayed.decoder.done or b'"session.done"' in body[:end]
            continue
        audio, text, error, _ = replay(short)
        if error is None:
            assert b"".join(audio) == PCM[: 2 * recording.expected["samples"]]
            assert text == (recording.expected["text"] or "")


@given(st.data())
@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("socket")])
def test_a_damaged_recording_ends_the_same_however_it_is_cut(name, data):
    """Bytes are changed, left out, doubled or put in: a failure by name or none, and never another exception."""
    body = bytearray(RECORDINGS[name].body)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(len(body) - 1, 0)))
        length = data.draw(st.integers(0, 30))
        put = data.draw(
            st.sampled_from([b"", b"\n\n", b"\r", b'"', b"{", b"RIFF", b"\xff", bytes(body[at : at + length])])
        )
        body[at : at + length] = put + data.draw(st.binary(max_size=3))
    damaged = Recording(name, (bytes(body),))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=10)))
    whole, cut = replay(damaged), replay(damaged, *cuts)
    assert b"".join(cut[0]) == b"".join(whole[0])
    assert cut[1:3] == whole[1:3]


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=5))
@pytest.mark.parametrize("name", ["speech_pcm", "speech_wav", "speech_sse", "chat"])
def test_any_bytes_end_in_a_failure_by_name_or_none(name, body, cuts):
    recording = Recording(name, (body,))
    whole, cut = replay(recording), replay(recording, *sorted(one for one in cuts if one <= len(body)))
    assert b"".join(cut[0]) == b"".join(whole[0]) and cut[1:3] == whole[1:3]
    if name == "speech_pcm" and whole[2] is None:
        assert b"".join(whole[0]) == body


# --- the recordings, and the whole client


@pytest.mark.parametrize("name", NAMES)
async def test_the_server_still_says_what_was_recorded(name):
    """As its recording does, a new one holds what the engine spoke; the script makes recordings anew."""
    assert recorder.expected() == EXPECTED
    now = Recording(name, chunks_of(await recorder.record(recorder.RECORDINGS[name])))
    check(now)
    check(now, *range(0, len(now.body), 97))


@pytest.mark.parametrize("name", NAMES)
async def test_the_whole_client_reads_a_recording_however_the_network_cuts_it(name, send):
    """The server writes up to a cut, waits until that has left, and then writes the rest."""
    data, expected = (FOLDER / f"{name}.http").read_bytes(), EXPECTED["forms"][name]
    head = data.index(b"\r\n\r\n") + 4
    places = 40 if name.startswith("socket") else 5
    for cut in (head - 9, head, head + 1, *range(head + 30, len(data), max(1, (len(data) - head) // places))):

        async def answer(reader, writer, cut=cut):
            request = await reader.readuntil(b"\r\n\r\n")
            writer.write(_with_accept(data[:head], request) + data[head:cut] if cut > head else b"")
            await writer.drain()
            await asyncio.sleep(0.002)
            writer.write(data[cut:] if cut > head else _with_accept(data[:head], request) + data[head:])
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            timeline, audio = await send(server.sockets[0].getsockname()[1], kind=expected["kind"], payload=b"{}")
        assert (timeline.error and timeline.error.kind) == expected["error"], (cut, timeline.error)
        assert b"".join(audio) == PCM[: 2 * expected["samples"]], cut
        assert sum(timeline.chunk_samples) == expected["samples"], cut
        if expected["error"] is None:
            assert timeline.reply_text == expected["text"], cut
        if expected["text"] and expected["error"] is None:
            assert len(timeline.text_arrived_ns) == timeline.completion_tokens == timeline.output_tokens
        assert timeline.server_request_id == "recorded"  # of the header: it is not the client's own id


def _with_accept(head, request):
    """The head of an answer, with the proof that a WebSocket's handshake asks for."""
    key = re.search(rb"(?i)sec-websocket-key: (\S+)", request)
    if key is None:
        return head

    proof = base64.b64encode(hashlib.sha1(key[1] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
    return re.sub(rb"(?i)(sec-websocket-accept: )\S+", rb"\g<1>" + proof, head)
