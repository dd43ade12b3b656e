"""What is wrong with an answer depends on what was asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest
import run_factory as runs

from omni_bench.load.clients.wire_forms import RequestedModalities
from omni_bench.records.config import ClientConfig
from omni_bench.records.prompt import Prompt
from omni_bench.records.recording import LevelRecording
from omni_bench.records.run_folder import RunFolder
from omni_bench.run.measure import answer_faults, measure_level, measure_request, other_prompt_text, spoken_text
from omni_bench.run.stored_results import read_results, request_record, result_record
from omni_bench.targets.null_server import tone

PROMPT = Prompt("p", "What do you say?", None, None, "en")
BOTH = RequestedModalities(audio=True, text=True, scripted=False)
TEXT = RequestedModalities(audio=False, text=True, scripted=False)
AUDIO = RequestedModalities(audio=True, text=False, scripted=False)
SECOND = tone(24_000, 24_000)
LONG_REPLY = "It takes quite a while to say all of this, and it goes on and on. " * 6


@pytest.fixture
def answer():
    """``answer(reply text, audio bytes)``."""

    def make(text=None, pcm=b""):
        if not pcm:
            empty = {"chunk_arrived_ns": (), "chunk_bytes": (), "first_audio_ns": None, "sample_rate_hz": None}
            return replace(runs.timeline("r"), **empty, reply_text=text)
        return replace(runs.timeline("r"), chunk_arrived_ns=(10,), chunk_bytes=(len(pcm),), reply_text=text)

    return make


def test_what_a_client_asks_for():
    assert RequestedModalities.of(ClientConfig(kind="openai_speech_ws")) == RequestedModalities()
    assert RequestedModalities.of(ClientConfig(kind="openai_chat_audio", modalities=["text", "audio"])) == BOTH
    assert RequestedModalities.of(ClientConfig(kind="openai_chat_audio", modalities=["text"])) == TEXT
    assert RequestedModalities.of(ClientConfig(kind="openai_chat_audio", modalities=["audio"])) == AUDIO


@pytest.mark.parametrize(
    ("requested", "text", "pcm", "faults"),
    [
        (TEXT, "Fine.", None, ()),
        (TEXT, "Fine.", b"", ()),
        (TEXT, None, b"", ("no_text",)),
        (TEXT, " \n", b"", ("no_text",)),
        (TEXT, "Fine.", bytes(48_000), ("silent",)),  # audio that nobody asked for is looked at all the same
        (BOTH, "Fine.", SECOND, ()),
        (BOTH, None, SECOND, ("no_text",)),
        (BOTH, "Fine.", b"", ("empty",)),
        (BOTH, "Fine.", None, ("empty",)),
        (BOTH, None, b"", ("empty", "no_text")),
        (BOTH, LONG_REPLY, SECOND, ("truncated",)),  # by the text of the reply, not of the prompt
        (AUDIO, None, SECOND * 20, ()),  # nobody knows how long it should have been
        (AUDIO, None, b"", ("empty",)),
        (RequestedModalities(), None, SECOND * 20, ("runaway",)),
        (RequestedModalities(), None, b"", ("empty",)),
        (RequestedModalities(), None, None, ("empty",)),
    ],
)
def test_faults(answer, requested, text, pcm, faults):
    assert answer_faults(answer(text, pcm or b""), PROMPT, pcm, requested) == faults


def test_samples_that_were_lost_are_unchecked(answer):
    assert answer_faults(answer("Fine.", SECOND), PROMPT, None, BOTH) == ("unchecked",)
    assert answer_faults(answer(None, SECOND), PROMPT, None, BOTH) == ("no_text", "unchecked")


def test_a_failed_answer_has_no_faults():
    assert answer_faults(runs.failed_timeline("r"), PROMPT, None, BOTH) == ()


def test_the_reply_is_what_is_to_be_heard(answer):
    assert spoken_text(answer("Fine."), PROMPT) == "Fine."
    assert other_prompt_text(answer("Fine."), PROMPT) == PROMPT.text
    for same in (None, "", "  ", PROMPT.text):
        assert spoken_text(answer(same), PROMPT) == PROMPT.text
        assert other_prompt_text(answer(same), PROMPT) is None


def test_both_texts_are_written_down(answer, tmp_path):
    audio = tmp_path / "r.pcm"
    audio.write_bytes(SECOND)
    timeline = answer("Fine.", SECOND)
    result = measure_request(timeline, PROMPT, audio, requested=BOTH)
    assert result.text == "Fine." and result.prompt_text == PROMPT.text and result.forced is None
    for record in (request_record(timeline, PROMPT), result_record(result, None)):
        assert (record["text"], record["prompt_text"], record["reply_text"]) == ("Fine.", PROMPT.text, "Fine.")
    unsaid = measure_request(answer(None, SECOND), PROMPT, audio, requested=BOTH)
    assert unsaid.forced == "no_text"  # there is nothing to compare with what is heard


def test_a_level_of_text_alone(answer, tmp_path):
    empty = tmp_path / "r.pcm"
    empty.write_bytes(b"")
    recording = LevelRecording(1, (answer("Fine."),), (answer("Warm."),), {"r": empty}, None, False, False)
    level = measure_level(recording, {recording.timelines[0].prompt_id: PROMPT}, check_signal=True, requested=TEXT)
    assert level.requests[0].faults == () and level.requests[0].audio is None
    assert level.warmup_requests[0].text == "Warm."


NEW_FIELDS = ("text_arrived_ns", "text_tokens", "reply_text", "completion_tokens", "server_request_id", "prompt_text")


@pytest.mark.parametrize("old", [False, True])
def test_lines_are_read_back_those_of_older_versions_too(answer, tmp_path, old):
    timeline = answer("Fine.", SECOND)
    result = measure_request(timeline, PROMPT, None, requested=BOTH)
    record = result_record(result, None)
    if old:
        for name in NEW_FIELDS:
            del record[name]
    with RunFolder.create(tmp_path / "run") as folder:
        folder.append_request(record)
        run = {
            "levels": [
                {
                    "concurrency": timeline.concurrency,
                    "requests": 1,
                    "client": None,
                    "valid": True,
                    "invalid_reasons": [],
                }
            ]
        }
        (level,) = read_results(folder, run)
    read = level.requests[0]
    assert read.text == "Fine."
    assert (read.prompt_text, read.timeline.reply_text) == ((None, None) if old else (PROMPT.text, "Fine."))
