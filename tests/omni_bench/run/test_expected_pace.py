"""A level whose sample rate nobody stated, read at the wrong one: its voice speaks as nobody does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import soundfile
from run_factory import timeline

from omni_bench.metrics.request import request_metrics
from omni_bench.records.config import RunConfig
from omni_bench.records.prompt import Prompt
from omni_bench.run.config.compose import compose
from omni_bench.run.expected_pace import asked_speed, reference_paces, with_expected_pace
from omni_bench.run.level_result import LevelResult, RequestResult
from omni_bench.run.validity import rate_facts

TEXTS = [
    f"A sentence of a usual length that ends with {word}." for word in ("one", "two", "three", "four", "five", "ten")
]
VOICE = 15.0  # letters a second


def config(*overrides: str) -> RunConfig:
    return compose(["target=external", "target.url=http://127.0.0.1:1", "asr=none", *overrides])


def level(made_at_hz: int, read_at_hz: int, stated: bool | None = False) -> LevelResult:
    """Tones as long as each text takes at :data:`VOICE`, of so many samples a second, read at another rate."""
    requests = []
    for number, text in enumerate(TEXTS):
        spoken = sum(map(str.isalpha, text)) / VOICE * (1 + 0.01 * (number % 3))
        pcm = (8000 * np.sin(np.arange(round(spoken * made_at_hz)) / 9)).astype("<i2").tobytes()
        one = replace(
            timeline(f"c1-{number:04d}"),
            chunk_arrived_ns=(200_000_000,),
            chunk_bytes=(len(pcm),),
            sample_rate_hz=read_at_hz,
            rate_stated=stated,
        )
        requests.append(RequestResult(one, text, "en", request_metrics(one, pcm), (), None))
    return LevelResult(1, tuple(requests), None)


def prompts(folder=None) -> dict[str, Prompt]:
    found = {}
    for number, text in enumerate(TEXTS):
        path = None
        if folder is not None:
            path = folder / f"{number}.wav"
            seconds = sum(map(str.isalpha, text)) / VOICE * (1 + 0.01 * (number % 3))
            soundfile.write(path, 0.3 * np.sin(np.arange(round(seconds * 16_000)) / 9), 16_000)
        name = timeline(f"c1-{number:04d}").prompt_id
        found[name] = Prompt(name, text, text if folder is not None else None, path, "en")
    return found


@pytest.mark.parametrize(("made_at_hz", "doubted"), [(44_100, True), (16_000, True), (24_000, False)])
def test_an_unstated_rate_is_doubted_by_the_language(made_at_hz, doubted):
    found = with_expected_pace(level(made_at_hz, 24_000), config(), prompts())
    reason = rate_facts(found, found.pace())
    assert (reason is not None) == doubted
    if reason is not None:
        assert reason.code == "rate_in_doubt" and str(made_at_hz) in reason.figures["fitting"]
        assert "client.sample_rate_hz; the server states none" in reason.text


def test_recordings_that_were_sent_tell_8_percent(tmp_path):
    sent = config("client.send_reference=true")
    found = with_expected_pace(level(22_050, 24_000), sent, prompts(tmp_path))
    reason = rate_facts(found, found.pace())
    assert reason is not None and reason.figures["fitting"] == "22050" and "reference recordings" in reason.text
    assert reference_paces(prompts(tmp_path).values())[0] == pytest.approx(VOICE, rel=0.02)
    right = with_expected_pace(level(24_000, 24_000), sent, prompts(tmp_path))
    assert rate_facts(right, right.pace()) is None
    stated = with_expected_pace(level(22_050, 24_000, stated=True), sent, prompts(tmp_path))
    assert rate_facts(stated, stated.pace()) is None  # a server that states its rate may be 8 % slower than a recording


def test_what_was_asked_for_is_no_wonder():
    slow = config("+client.extra_body.speed=0.55")
    assert asked_speed(slow.client) == 0.55
    found = with_expected_pace(level(44_100, 24_000), slow, prompts())
    assert rate_facts(found, found.pace()) is None
    assert with_expected_pace(level(44_100, 24_000), config("checks.pace=false"), prompts()).expected_pace is None
