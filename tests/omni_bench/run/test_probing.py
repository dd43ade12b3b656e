"""The requests of the probe: how often it asks, when it gives up, and what it makes of a bad server."""

from __future__ import annotations

import base64
import gc
import http.server
import json
import math
import os
import re
import signal
import struct
import threading
import time
from pathlib import Path

import pytest

from omni_bench.errors import ProtocolError, TargetError
from omni_bench.load.events import read_job, write_message
from omni_bench.load.runner import make_job
from omni_bench.records.plan import LevelPlan
from omni_bench.records.prompt import Prompt
from omni_bench.run import probing
from omni_bench.run.config.compose import compose
from omni_bench.run.probing import LONG, SHORT, injected, probe_server
from omni_bench.run.server_facts import ServerFacts
from omni_bench.targets.base import TargetInfo

PROMPT = Prompt(id="p", text="The text of the data set.", ref_text=None, ref_audio=None, language="en")
WAV = b"RIFF" + struct.pack("<I", 2**32 - 1) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 24000, 48000, 2, 16)
WAV += b"data" + struct.pack("<I", 2**32 - 1)


class Server:
    """Answers the next of ``answers`` (the last one ever after); ``asked`` are the bodies and headers it got."""

    def __init__(self, *answers):
        self.asked = []
        self.alive = True
        self.per_connection = None  # requests, after which it is closed without a word
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                answer = answers[min(len(outer.asked), len(answers) - 1)]
                outer.asked.append((body, dict(self.headers)))
                status, content_type, pieces = answer(body) if callable(answer) else answer
                self.send_response(status)
                self.send_header("Content-Type", content_type)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for piece in pieces:
                    if piece is None:
                        time.sleep(0.1)
                    else:
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.write(b"0\r\n\r\n")
                self.served = getattr(self, "served", 0) + 1
                self.close_connection = self.served == outer.per_connection

            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.handler = Handler  # its ``timeout``: how long a connection may wait for a request
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.base_url = f"http://127.0.0.1:{self.http.server_port}"
        self.log_path = None

    def is_alive(self):
        return self.alive

    def failure(self):
        return "exit code 9; the end of its log"

    def info(self, **changes):
        return TargetInfo(
            **{"kind": "external", "base_url": self.base_url, "startup_s": 0.1, "command": None} | changes
        )


@pytest.fixture
def serve(monkeypatch):
    monkeypatch.setattr(probing, "RETRY_AFTER_S", 0.01)
    monkeypatch.setattr(probing, "SETTLE_S", 0.01)
    made = []

    def start(*answers):
        made.append(Server(*answers))
        return made[-1]

    yield start
    for one in made:
        one.http.shutdown()
        one.http.server_close()


def probe(server, *overrides, prompt=PROMPT, **info):
    config = compose(["scenario=smoke", "client.model=m", "client.seed=40", *overrides])
    return probe_server(config, prompt, server, server.info(**{"health": None, "models": None} | info))


def speech(body):
    level = 1000 * (1 + (body.get("seed") or 0) % 7)
    return 200, "audio/pcm", (struct.pack("<h", level) * 500, None, struct.pack("<h", level) * 500)


def refusal(status, message="no"):
    return status, "application/json", (json.dumps({"error": {"message": message}}).encode(),)


def test_it_asks_three_times_with_the_configured_client(serve):
    server = serve(speech)
    found = probe(server, "client.voice=anna")
    assert found.seed == "obeyed" and found.streams and found.warnings == ()
    bodies = [body for body, _ in server.asked]
    assert [body["seed"] for body in bodies] == [40, 40, 41]
    assert {body["input"] for body in bodies} == {SHORT["en"]} and {body["voice"] for body in bodies} == {"anna"}
    ids = [headers["x-request-id"].partition("-") for _, headers in server.asked]
    assert [name for _, _, name in ids] == ["probe-0", "probe-2", "probe-3"] and len({run for run, _, _ in ids}) == 1


def test_a_language_without_a_sentence_uses_the_prompt(serve):
    server = serve(lambda body: (200, "audio/pcm", (bytes(2000),)))
    found = probe(server, prompt=Prompt("p", "Bonjour à tous.", None, None, "fr"))
    assert {body["input"] for body, _ in server.asked} == {"Bonjour à tous."}
    assert found.seed == "without effect" and not found.streams


def test_a_longer_sentence_only_where_the_short_one_came_at_once(serve):
    server = serve(lambda body: speech(body) if body["input"] == LONG["en"] else (200, "audio/pcm", (b"\1\0" * 100,)))
    found = probe(server, "client.seed=null")
    assert [body["input"] for body, _ in server.asked] == [SHORT["en"], LONG["en"]]
    assert found.streams and found.chunks == 2 and found.seed is None


def test_answers_that_differ_by_rounding_are_one(serve):
    levels = iter([1000, 1003, 5000])

    def answer(_):
        pcm = struct.pack("<h", next(levels)) * 500
        return 200, "audio/pcm", (pcm, None, pcm)

    assert probe(serve(answer)).seed == "obeyed"


def test_a_server_that_is_busy_once_is_asked_again(serve):
    server = serve(refusal(503), speech)
    assert probe(server).streams and len(server.asked) == 4


def test_a_refusal_is_final_and_told(serve):
    server = serve(refusal(404, "The model `m` does not exist."))
    with pytest.raises(ProtocolError, match=r"/v1/audio/speech cannot be measured with client=openai_speech, so that "):
        probe(server)
    assert len(server.asked) == 1
    with pytest.raises(ProtocolError, match="HTTP 404: The model `m` does not exist"):
        probe(server)


@pytest.mark.parametrize("status", [429, 500])
def test_two_failures_are_enough(serve, status):
    server = serve(refusal(status))
    with pytest.raises(ProtocolError, match=f"http_status: HTTP {status}: no"):
        probe(server)
    assert len(server.asked) == 2


def test_a_wav_header_in_raw_samples_is_told(serve):
    with pytest.raises(ProtocolError, match=r"content_type: .*WAV header although raw pcm was asked for"):
        probe(serve((200, "audio/pcm", (WAV + bytes(4800),))))


def test_another_content_type_is_told(serve):
    with pytest.raises(ProtocolError, match="content_type: content type 'text/html'"):
        probe(serve((200, "text/html", (b"<html>hello</html>",))))


def test_right_samples_under_a_wrong_name_are_refused_with_the_switch_that_takes_them(serve):
    """A gateway that calls every answer audio/mpeg (litellm 4332); an MP3 under that name is none of it."""
    server = serve((200, "audio/mpeg; x=1", speech({})[2]))
    with pytest.raises(ProtocolError, match=r"client\.content_types=\[audio/mpeg\]"):
        probe(server)
    assert probe(server, "client.content_types=[Audio/MPEG]").audio_s > 0
    with pytest.raises(ProtocolError, match="what came as samples is an MP3"):
        probe(serve((200, "audio/mpeg", (b"ID3" + bytes(4800),))), "client.content_types=[audio/mpeg]")


def test_a_refused_model_is_told_with_those_that_the_server_lists(serve):
    listed = {"data": [{"id": "Qwen/Qwen3-TTS"}, {"id": "b"}]}
    with pytest.raises(ProtocolError, match=r"no; client.model=m is not among .* lists: Qwen/Qwen3-TTS, b"):
        probe(serve(refusal(404)), models=listed)


def test_events_that_are_passed_over_beside_audio_are_named(serve):
    def event(value):
        return b"data: " + json.dumps(value).encode() + b"\n\n"

    audio = base64.b64encode(struct.pack("<h", 1000) * 500).decode()
    stream = ({"type": "speech.mark"}, {"type": "speech.audio.delta", "audio": audio}, {"type": "speech.audio.done"})
    found = probe(serve((200, "text/event-stream", tuple(map(event, stream)))), "client=openai_speech_sse")
    assert [one for one in found.warnings if "passes over: 'speech.mark' (1)" in one]


def test_a_key_is_not_repeated(serve, monkeypatch):
    monkeypatch.setenv("SOME_KEY", "sk-very-secret")
    server = serve(refusal(401, "Incorrect API key provided: sk-very-secret"))
    with pytest.raises(ProtocolError) as caught:
        probe(server, "client.api_key_env=SOME_KEY")
    assert "sk-very-secret" not in str(caught.value) and "***" in str(caught.value)
    assert server.asked[0][1]["Authorization"] == "Bearer sk-very-secret"


@pytest.mark.parametrize(
    ("key", "advice"),
    [
        (None, "name the variable that holds it: client.api_key_env=NAME"),
        ("SOME_KEY", "other than the one that client"),
    ],
)
@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_for_want_of_a_key_says_where_it_goes(serve, monkeypatch, key, advice, status):
    monkeypatch.setenv("SOME_KEY", "sk-very-secret")
    with pytest.raises(ProtocolError, match=f"it wants a key.*{advice}"):
        probe(serve(refusal(status)), f"client.api_key_env={key or 'null'}")


def test_a_server_that_is_gone_is_said_to_have_died(serve):
    server = serve(refusal(500))
    server.alive = False
    with pytest.raises(TargetError, match="the server died during the probe: exit code 9; the end of its log"):
        probe(server)


def test_a_server_that_dies_while_it_hangs_is_not_waited_for(serve):
    hung = threading.Event()
    server = serve(lambda _: (hung.wait(), speech({}))[1])
    threading.Timer(0.5, lambda: setattr(server, "alive", False)).start()
    try:
        with pytest.raises(TargetError, match="died during the probe"):
            probe(server, "client.request_timeout_s=600")
    finally:
        hung.set()


def test_an_interrupt_ends_it_at_once(serve):
    hung = threading.Event()
    # when the request is there the probe waits: a moment earlier whatever prepares it could swallow the interrupt, and
    # so could Hypothesis, which times each garbage collection in a callback, whose exceptions Python drops
    once = iter([signal.SIGINT])  # a second one would end pytest
    server = serve(lambda _: ([os.kill(os.getpid(), one) for one in once], hung.wait(), speech({}))[2])
    gc.disable()
    try:
        with pytest.raises(KeyboardInterrupt):
            probe(server, "client.request_timeout_s=600")
        assert not [one for one in threading.enumerate() if one.name.startswith("probe")]
    finally:
        gc.enable()
        hung.set()


def test_a_failure_of_the_seed_s_requests_is_no_failure_of_the_probe(serve):
    assert probe(serve(speech, refusal(500))).seed is None
    assert probe(serve(speech, speech, refusal(500))).seed is None


def test_models_that_lack_the_configured_one_are_warned_of(serve):
    found = probe(serve(speech), models={"data": [{"id": "other"}]})
    assert found.warnings == ("client.model=m is not among the models that the server lists: other",)


@pytest.mark.parametrize(
    ("overrides", "kind", "health", "expected"),
    [
        ([], "reference", None, False),
        ([], "reference", {"status": "ok", "fault": None}, False),
        ([], "reference", {"fault": "wrong_text"}, True),
        (["target.chaos=cut"], "vllm_omni", None, True),
        # a server that was started elsewhere is ours if it says what ours say, and no stranger's word counts
        ([], "external", {"fault": "slow_12", "checkpoint_sha256": "ab"}, True),
        ([], "external", {"fault": "graph_rng"}, False),
        ([], "external", {"fault": "of some kind", "checkpoint_sha256": "ab"}, False),
        ([], "vllm_omni", {"fault": "graph_rng", "checkpoint_sha256": "ab"}, False),
    ],
)
def test_a_fault_on_purpose(overrides, kind, health, expected):
    config = compose(["scenario=smoke", *overrides])
    assert injected(config.target, TargetInfo(kind, "", 0.0, None, health, None)) is expected


def test_a_list_of_models_that_was_cut_is_no_reason_to_warn(serve):
    models = {"data": [{"id": f"m{number}"} for number in range(5000)]}
    assert probe(serve(speech), models=models).warnings == ()


@pytest.mark.parametrize(
    ("pcm", "what"),
    [
        (b"ID3\x04" + bytes(9000), "is an MP3 (begins with 49 44 33 04"),
        (b"OggS\0\x02" + bytes(9000), "is Ogg"),
        (struct.pack("<9000f", *(0.3 * math.sin(n / 9) for n in range(9000))), "looks like 32-bit floats"),
        (struct.pack(">9000h", *(round(9000 * math.sin(n / 9)) for n in range(9000))), "looks like big-endian samples"),
    ],
)
def test_what_is_no_16_bit_audio_is_named_before_any_level(serve, pcm, what):
    with pytest.raises(ProtocolError, match=re.escape(what)):
        probe(serve((200, "audio/pcm", (pcm,))))


def test_faults_of_the_audio_are_said_before_any_level(serve):
    clipped = struct.pack("<h", 32767) * 500
    found = probe(serve((200, "audio/pcm", (clipped, None, clipped))))
    assert any(one.startswith("the audio of the probe is faulty: clipped") for one in found.warnings)


@pytest.mark.parametrize(("idle_s", "requests"), [(0.005, None), (0.3, None), (None, 1), (None, 3)])
def test_a_server_that_closes_connections_is_found_out_and_its_answers_are_not_lost(serve, idle_s, requests):
    server = serve(speech)
    server.handler.timeout, server.per_connection = idle_s, requests
    found = probe(server)
    assert found.keeps_connections is False and found.seed == "obeyed"
    assert any("closes connections between two requests" in one for one in found.warnings)
    assert ServerFacts(conformance=found.as_dict()).keeps_connections is False


def test_a_connection_that_we_closed_says_nothing_of_the_server(serve):
    found = probe(serve(speech, (200, "audio/mpeg", (b"ID3" + bytes(4800),))))
    assert found.keeps_connections is None and not any("closes connections" in one for one in found.warnings)


def test_one_that_keeps_them_is_taken_at_its_word(serve):
    found = probe(serve(speech))
    assert found.keeps_connections and found.warnings == () and ServerFacts().keeps_connections


@pytest.mark.parametrize("reuse", [True, False])
def test_what_was_found_out_reaches_the_load(reuse):
    client = compose(["scenario=smoke"]).client
    job = make_job(LevelPlan(1, (), ()), "http://127.0.0.1:1", client, Path("."), "/health", reuse=reuse)
    assert read_job(write_message(job)).options.reuse is reuse
