"""The judge on faster-whisper: batches, limits, and where it runs."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from omni_bench.accuracy.asr import pool
from omni_bench.accuracy.asr.clips import AsrClip
from omni_bench.accuracy.asr.faster_whisper import FasterJudge, load_faster_judge
from omni_bench.accuracy.asr.settings import JudgeSettings
from omni_bench.accuracy.asr.weights.files import sha256_of_files
from omni_bench.accuracy.asr.weights.packages import find_installed_weights
from omni_bench.accuracy.asr.weights.resolve import FASTER_WHISPER, JudgeSpec, describe_judge
from omni_bench.accuracy.asr.weights.resolve_faster import installed_version, resolve_faster_whisper
from omni_bench.datasets.bundled import read_bundled
from omni_bench.errors import AccuracyError
from omni_bench.records.config import AsrConfig

SETTINGS = JudgeSettings(batch_size=4, lead_silence_ms=250, tail_silence_ms=200)
WINDOW = 480_000


class FakePipeline:
    """Hears how many tenths of a second of a window are not silent; ``silent`` windows give no segment."""

    def __init__(self):
        self.calls = []
        self.error = None
        self.tokens = None

    def transcribe(self, audio, **options):
        if self.error is not None:
            raise self.error
        self.calls.append((audio.size, options))
        assert audio.size == WINDOW * options["batch_size"]
        segments = []
        for number, span in enumerate(options["clip_timestamps"]):
            assert span == {"start": 30.0 * number, "end": 30.0 * (number + 1)}
            loud = int(np.count_nonzero(audio[number * WINDOW : (number + 1) * WINDOW])) // 1600
            tokens = list(range(self.tokens if self.tokens is not None else loud))
            segments.append(
                SimpleNamespace(
                    text=f" {loud}", tokens=tokens, start=span["start"], avg_logprob=-0.25, no_speech_prob=0.125
                )
            )
        return iter(segments), None


def judge(*, batched=True, multilingual=False):
    tokenizer = SimpleNamespace(decode=lambda tokens: f" cut at {len(tokens)}")
    model = SimpleNamespace(model=SimpleNamespace(is_multilingual=multilingual), hf_tokenizer=tokenizer)
    pipeline = FakePipeline()
    return FasterJudge(model, pipeline, SETTINGS, batched=batched), pipeline


def clips(*tenths):
    return [AsrClip(f"r{index}", np.ones(1600 * count, np.int16), 16000) for index, count in enumerate(tenths)]


@pytest.mark.parametrize(("batched", "calls"), [(True, [4, 2]), (False, [1] * 6)])
def test_transcripts_come_in_order_in_batches_or_one_by_one(batched, calls):
    subject, pipeline = judge(batched=batched)
    heard = subject.transcribe(clips(5, 3, 9, 2, 7, 4), "en")
    assert [one.text for one in heard] == ["5", "3", "9", "2", "7", "4"]
    assert [one.request_id for one in heard] == [f"r{index}" for index in range(6)]
    assert [options["batch_size"] for _, options in pipeline.calls] == calls
    assert (heard[0].avg_logprob, heard[0].no_speech_prob) == (-0.25, 0.125)
    options = pipeline.calls[0][1]
    assert (options["beam_size"], options["temperature"], options["vad_filter"]) == (1, 0.0, False)


def test_a_looping_decoder_ends_at_the_clips_own_cap():
    subject, pipeline = judge()
    pipeline.tokens = 100
    heard = subject.transcribe(clips(10, 100), "en")
    assert [one.text for one in heard] == ["cut at 30", "100"]
    assert pipeline.calls[0][1]["max_new_tokens"] == 16 + 14 * 10


def test_long_clips_are_cut_and_joined_and_nothing_is_an_empty_text():
    subject, pipeline = judge()
    heard = subject.transcribe(clips(400, 0), "en")
    assert sum(int(word) for word in heard[0].text.split()) in (399, 400) and len(heard[0].text.split()) == 2
    assert (heard[1].text, heard[1].avg_logprob) == ("", None)
    pipeline.tokens = 0
    assert subject.transcribe(clips(5), "en")[0].text == ""


def test_languages():
    subject, pipeline = judge(multilingual=True)
    mixed = clips(1, 2)
    subject.transcribe([mixed[0], AsrClip("de", mixed[1].pcm16, 16000, "de-DE")], "en-GB")
    assert [options["language"] for _, options in pipeline.calls] == ["de", "en"]
    with pytest.raises(AccuracyError, match="understands English only"):
        judge()[0].transcribe(clips(1), "de")


def test_a_failure_of_the_library_is_an_accuracy_error():
    subject, pipeline = judge()
    pipeline.error = RuntimeError("Library libcublas.so.12 is not found")
    with pytest.raises(AccuracyError, match="faster-whisper failed: Library libcublas"):
        subject.transcribe(clips(1), "en")


@pytest.fixture
def library(monkeypatch):
    module = ModuleType("faster_whisper")
    module.made = []

    def model(*values, **options):
        module.made.append((values, options))
        return SimpleNamespace(model=SimpleNamespace(is_multilingual=False))

    module.WhisperModel = model
    module.BatchedInferencePipeline = lambda model: FakePipeline()
    monkeypatch.setitem(sys.modules, "faster_whisper", module)
    return module


def spec_in(folder, device, parts=1):
    for name in ("config.json", "tokenizer.json", "vocabulary.txt"):
        (folder / name).write_text(name)
    paths = [folder / ("model.bin" if parts == 1 else f"model.bin.part{number}") for number in range(parts)]
    for number, path in enumerate(paths):
        path.write_text(f"weights {number};")
    return JudgeSpec("m", "path", "o", tuple(paths), sha256_of_files(paths), device, 30.0, FASTER_WHISPER)


def test_the_model_is_asked_for_the_device_and_its_type(library, tmp_path):
    load_faster_judge(spec_in(tmp_path, "cpu"), SETTINGS)
    load_faster_judge(spec_in(tmp_path, "cuda:1"), SETTINGS)
    (where, cpu), (_, cuda) = library.made
    assert where == (str(tmp_path),) and cpu["files"] is None and cpu["local_files_only"]
    assert (cpu["device"], cpu["compute_type"], cpu["cpu_threads"]) == ("cpu", "float32", 1)
    assert (cuda["device"], cuda["device_index"], cuda["compute_type"]) == ("cuda", 1, "float16")


def test_a_model_in_parts_is_joined_in_memory(library, tmp_path):
    load_faster_judge(spec_in(tmp_path, "cpu", parts=2), SETTINGS)
    files = library.made[0][1]["files"]
    assert files["model.bin"] == b"weights 0;weights 1;" and files["config.json"] == b"config.json"


def test_weights_that_changed_and_a_library_that_is_gone(library, monkeypatch, tmp_path):
    spec = spec_in(tmp_path, "cpu")
    spec.paths[0].write_text("other")
    with pytest.raises(AccuracyError, match="The file changed"):
        load_faster_judge(spec, SETTINGS)
    monkeypatch.setitem(sys.modules, "faster_whisper", None)
    with pytest.raises(AccuracyError, match=r"pip install 'omni-bench\[faster-whisper\]'"):
        load_faster_judge(spec, SETTINGS)


@pytest.mark.slow
def test_the_real_one_hears_what_was_said():
    if installed_version() is None:
        pytest.skip("faster-whisper is not installed")
    if find_installed_weights("tiny.en") is None:
        pytest.skip("no package with tiny.en is installed")
    prompt = read_bundled("seed_tts_mini", "en").take(0)
    asr = AsrConfig(kind="faster_whisper", model="tiny.en", device="cpu", workers=1)
    (heard,) = pool.transcribe([AsrClip("r", prompt.ref_audio, 24000)], asr, "en")
    assert heard.text.lower().split()[:3] == prompt.ref_text.lower().split()[:3]
    facts = describe_judge(resolve_faster_whisper("tiny.en", "cpu"))
    assert facts["engine"] == FASTER_WHISPER and facts["ctranslate2"] and facts["dtype"] == "float32"
