"""Every wire form from the load worker to the reference server and back: the same samples in all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import record_wire_forms as recorder
import sent
from served import in_a_thread

from omni_bench.load.clients.wire_forms import FORMS
from omni_bench.load.closed_plan import build_level_plans
from omni_bench.metrics.request import request_metrics
from omni_bench.records.config import ClientConfig, LoadConfig
from omni_bench.records.prompt import Prompt
from reference_impl.http.app import create_app

TEXTS = ["One sentence.", "And another one, with a comma.", "Hi!", "The last, at last."]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The reference server around the recorder's engine, in a thread; its address."""
    with in_a_thread(SimpleNamespace(application=lambda: create_app(recorder.ToneEngine(), chat_token_ms=1.0))) as url:
        yield url


def drive(server: str, tmp_path: Path, client: ClientConfig):
    """The recording of a level of two slots and four requests, each with its own text."""
    prompts = [Prompt(str(number), text, None, None, "en") for number, text in enumerate([*TEXTS, "Warm up."])]
    load = LoadConfig(concurrency=[2], requests_per_level=4, warmup_per_slot=1)
    load.requests_per_slot = 0
    (plan,) = build_level_plans([*prompts, *[Prompt("w", "Once more.", None, None, "en")]], load, client)
    return sent.drive(plan, server, client, tmp_path)


@pytest.mark.parametrize("kind", [name for name in FORMS if name != "sglang_omni_speech"])  # it does not speak that
def test_the_samples_are_those_of_the_engine(server, tmp_path, kind):
    modalities = ["text", "audio"] if kind == "openai_chat_audio" else []
    recording = drive(server, tmp_path, ClientConfig(kind=kind, modalities=modalities))
    pcm = b"".join(recorder.chunks_pcm())
    assert len(recording.timelines) == 4 and all(one.ok for one in recording.warmup)
    for timeline, text in zip(recording.timelines, TEXTS, strict=True):
        assert timeline.ok, timeline.error
        assert recording.audio[timeline.request_id].read_bytes() == pcm
        assert [samples for _, samples in timeline.http_chunks] == list(recorder.CHUNK_SAMPLES)
        assert timeline.sample_rate_hz == recorder.RATE_HZ
        assert timeline.reply_text == (text if modalities else None)
        expected = f"chatcmpl-{timeline.wire_id}" if modalities else timeline.wire_id
        assert timeline.server_request_id == expected
        metrics = request_metrics(timeline, pcm)
        assert metrics["stalls"] is not None and metrics["rtf"] > 0 and len(metrics["icl_ms"]) == 2


def test_a_text_alone(server, tmp_path):
    recording = drive(server, tmp_path, ClientConfig(kind="openai_chat_audio", modalities=["text"]))
    for timeline, text in zip(recording.timelines, TEXTS, strict=True):
        assert timeline.ok and timeline.reply_text == text and timeline.chunk_bytes == ()
        assert timeline.completion_tokens == len(timeline.text_arrived_ns)
        metrics = request_metrics(timeline, b"")
        assert metrics["ttft_ms"] > 0 and metrics["rtf"] is None and metrics["audio_s"] is None
        assert len(metrics["itl_ms"]) == timeline.completion_tokens - 1


def test_a_key_does_not_come_back_in_what_is_said(server, tmp_path, monkeypatch):
    monkeypatch.setenv("BENCH_KEY", "another")
    client = ClientConfig(kind="openai_chat_audio", modalities=["text"], api_key_env="BENCH_KEY")
    replies = [timeline.reply_text for timeline in drive(server, tmp_path, client).timelines]
    assert replies[1] == "And *** one, with a comma." and replies[0] == TEXTS[0]
