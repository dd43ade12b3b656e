"""Which recogniser is loaded for which setting."""

import pytest

from omni_bench.accuracy.asr import engines, faster_whisper, openai_whisper
from omni_bench.accuracy.asr.settings import JudgeSettings
from omni_bench.accuracy.asr.weights import resolve_faster
from omni_bench.accuracy.asr.weights.resolve import ENGINE_PACKAGES, FASTER_WHISPER, WHISPER, JudgeSpec
from omni_bench.records.config import AsrConfig
from omni_bench.run.config.validate import ASR_KINDS


def test_the_kind_decides_who_looks_for_the_weights(monkeypatch):
    asked = []
    monkeypatch.setattr(engines, "resolve_judge", lambda *values, **more: asked.append((WHISPER, values, more)))
    monkeypatch.setattr(
        resolve_faster, "resolve_faster_whisper", lambda *values, **more: asked.append((FASTER_WHISPER, values, more))
    )
    for kind in (WHISPER, FASTER_WHISPER):
        engines.resolve_engine(AsrConfig(kind=kind, model="base", device="cpu"), "de", download=False)
        name, values, more = asked.pop()
        assert (name, values, more["download"]) == (kind, ("base", "cpu", "de"), False)


def test_the_spec_decides_who_loads_them(monkeypatch):
    settings = JudgeSettings(1, 0, 0)
    monkeypatch.setattr(openai_whisper, "load_judge", lambda spec, given: ("openai", given))
    monkeypatch.setattr(faster_whisper, "load_faster_judge", lambda spec, given: ("faster", given))
    spec = JudgeSpec("m", "path", "o", (), "0" * 64, "cpu", 30.0)
    assert engines.load_engine(spec, settings) == ("openai", settings)
    faster = JudgeSpec("m", "path", "o", (), "0" * 64, "cpu", 30.0, FASTER_WHISPER)
    assert engines.load_engine(faster, settings) == ("faster", settings)


@pytest.mark.parametrize("kind", [kind for kind in ASR_KINDS if kind != "none"])
def test_every_kind_has_an_engine(kind):
    assert kind in ENGINE_PACKAGES
