"""The comparison with other packages: equal lengths, released files, one row for everything that was tried."""

from __future__ import annotations

import dataclasses
import json
import sys

import numpy as np
import pytest
import torch

from benchmarks.peers import __main__ as peers
from benchmarks.peers import worker as peer_worker
from benchmarks.peers.checkpoint import codec_json, generation_json, main_json, random_weights, shrunk
from benchmarks.peers.systems import Mode
from benchmarks.peers.table import WANTED, figures, render, understand, with_ratios
from reference_impl.loading.qwen_tokenizer import QwenTokenizer, WordHashTokenizer
from reference_impl.loading.released_config import read_config
from reference_impl.model.presets import PRESETS
from reference_impl.official_parity.official import save_tokenizer
from reference_impl.prompt.builder import forced_frames

LARGE, SMALL = peers.MODELS
PLAN = {
    "models": [LARGE],
    "frames": 10,
    "text": "the the",
    "warm_up": {"frames": 6, "text": "the"},
    "rounds": 2,
    "enough_s": 1e9,
    "device": "cpu",
    "tiny": True,
    "settings": {},
}


def result(model=LARGE, mode="whole", wall_s=(4.0, 2.0, 3.0), first_s=None):
    return {
        "model": model,
        "mode": mode,
        "frames": 100,
        "frame_rate_hz": 12.5,
        "wall_s": list(wall_s),
        "first_s": first_s,
        "warm_up_s": 9.0,
        "ready_s": 5.0,
        "peak_gb": None,
    }


@pytest.fixture
def worker(tmp_path, monkeypatch):
    """Replace the process of a system by a script."""

    def write(script):
        path = tmp_path / "worker.py"
        path.write_text(script, encoding="utf-8")
        monkeypatch.setattr(peers, "WORKER", path)

    return write


# --- equal work -----------------------------------------------------------------------------------


@pytest.mark.parametrize("model", peers.MODELS)
def test_our_engine_speaks_the_text_in_exactly_the_frames_asked_of_the_peers(model):
    config = PRESETS[model]
    frames = range(2, 400)
    assert [forced_frames(peers.text_of(count).strip(), config) for count in frames] == list(frames)


def test_the_prompt_has_nearly_the_same_length_for_every_system(tmp_path):
    save_tokenizer(tmp_path)
    theirs = QwenTokenizer(tmp_path)
    ours = WordHashTokenizer(PRESETS[LARGE].talker.text_vocab_size)
    for frames in (2, 24, 99, 100, 101, 250):
        text = peers.text_of(frames)
        assert 0 <= len(theirs.encode(text)) - len(ours.encode(text)) <= 2


@pytest.mark.parametrize("change", [lambda config: config, shrunk])
@pytest.mark.parametrize("model", peers.MODELS)
def test_the_released_files_say_what_the_preset_says(model, change, tmp_path):
    config = change(PRESETS[model])
    markers = save_tokenizer(tmp_path)
    (tmp_path / "speech_tokenizer").mkdir()
    for name, raw in {
        "config.json": main_json(config, markers),
        "generation_config.json": generation_json(config),
        "speech_tokenizer/config.json": codec_json(config, small_encoder=True),
    }.items():
        (tmp_path / name).write_text(json.dumps(raw), encoding="utf-8")
    read = read_config(tmp_path)
    ids = {
        "tts_pad_id": markers["<tts_pad>"],
        "tts_bos_id": markers["<tts_text_bos>"],
        "tts_eos_id": markers["<tts_text_eod>"],
    }
    assert read.name == {LARGE: "Qwen3-TTS-12Hz-1.7B-CustomVoice", SMALL: "Qwen3-TTS-12Hz-0.6B-CustomVoice"}[model]
    assert read == dataclasses.replace(config, name=read.name, text=dataclasses.replace(config.text, **ids))


def test_every_tensor_of_a_model_on_the_meta_device_gets_a_value():
    with torch.device("meta"):
        model = torch.nn.Sequential(torch.nn.Linear(64, 400), torch.nn.LayerNorm(400), torch.nn.BatchNorm1d(4))
    weights = random_weights(model, torch.Generator().manual_seed(1), torch.bfloat16)
    assert {name: value.shape for name, value in weights.items()} == {
        name: value.shape for name, value in model.state_dict().items()
    }
    assert weights["0.weight"].dtype == torch.bfloat16
    assert weights["0.weight"].float().std().item() == pytest.approx(64**-0.5, rel=0.05)
    assert (weights["0.bias"] == 0).all() and (weights["1.weight"] == 1).all()
    assert weights["2.num_batches_tracked"].dtype == torch.int64


# --- measuring ------------------------------------------------------------------------------------


def test_the_first_audio_is_the_first_piece_that_holds_samples(monkeypatch):
    now = [10.0]
    monkeypatch.setattr(peer_worker.time, "perf_counter", lambda: now[0])

    def pieces():
        for seconds, samples in ((1.0, 0), (2.0, 5), (4.0, 7), (1.0, 0)):
            now[0] += seconds
            yield np.zeros(samples, np.float32)
        now[0] += 100.0  # what the package does after its last piece is nobody's audio

    heard = peer_worker.listen(pieces())
    assert (heard.first_s, heard.last_s, heard.samples, heard.finite) == (3.0, 8.0, 12, True)


class Fake:
    modes = (Mode("right", True, 1), Mode("short", False), Mode("noise", False), Mode("broken", False))
    closed = 0

    def __init__(self, model, config, plan, folder):
        assert folder.is_dir()
        self._samples = config.code2wav.samples_per_frame

    def speak(self, mode, text, frames):
        assert (text, frames) in (("the", 6), ("the the", 10))
        if mode.name == "broken" and frames == 10:
            raise KeyError("a bug of theirs")
        yield np.zeros(self._samples, np.float32)
        wave = np.zeros(self._samples * (frames - (2 if mode.name == "short" and frames == 10 else 1)), np.float32)
        yield wave / 0 if mode.name == "noise" else wave

    def close(self):
        Fake.closed += 1


@pytest.mark.filterwarnings("ignore:invalid value")
def test_wrong_lengths_and_errors_are_results_of_their_mode_alone(monkeypatch):
    monkeypatch.setitem(peer_worker.SYSTEMS, "qwen_tts", Fake)
    monkeypatch.setitem(peer_worker.NEEDS, "qwen_tts", ("json",))
    closed = Fake.closed
    about, right, short, noise, broken, done = peer_worker.run("qwen_tts", PLAN)
    assert set(about["about"]) == {"python", "packages", "device"}
    assert len(right["wall_s"]) == len(right["first_s"]) == 2 and right["frames"] == 10
    assert "9.00 frames came out, not 10" in short["error"] and short["mode"] == "short"
    assert "no numbers" in noise["error"]
    assert "a bug of theirs" in broken["error"]
    assert done == {"done": LARGE} and Fake.closed == closed + 1


def test_a_package_that_is_not_there_is_not_a_crash(monkeypatch):
    monkeypatch.setitem(peer_worker.NEEDS, "qwen_tts", ("json", "no_such_package_here"))
    _, missing, done = peer_worker.run("qwen_tts", PLAN)
    assert missing == {"model": LARGE, "error": "not installed: no_such_package_here"}
    assert done == {"done": LARGE}


# --- figures --------------------------------------------------------------------------------------


def test_figures_are_of_the_median_utterance_and_ratios_are_to_ours():
    ours = figures("ours", result(mode="stream", wall_s=(0.5, 0.3, 0.4), first_s=[0.02, 0.04, 0.03]))
    theirs = figures("faster_qwen3_tts", result(mode="chunks of 1", first_s=[0.3, 0.1, 0.2]))
    whole = figures("qwen_tts", result(wall_s=(8.0,)))
    assert ours["ms_per_frame"] == pytest.approx(4.0) and ours["rtf"] == pytest.approx(0.05)
    assert ours["ttfp_ms"] == pytest.approx(30)
    rows = with_ratios([ours, theirs, whole])
    assert [row["rtf_ratio"] for row in rows] == pytest.approx([1, 7.5, 20])
    assert rows[1]["ttfp_ratio"] == pytest.approx(200 / 30)
    assert rows[2]["ttfp_ms"] is None and rows[2]["ttfp_ratio"] is None


def test_what_is_missing_prints_na_and_its_reason():
    failed = {"system": "faster_qwen3_tts", "model": LARGE, "mode": None, "error": "not | installed"}
    text = render(with_ratios([figures("qwen_tts", result()), failed]))
    whole, broken = text.splitlines()[2:4]
    cells = [cell.strip() for cell in whole.strip("|").split("|")]
    assert cells[1:9] == ["qwen-tts", "whole", "3", "30.00", "0.3750", "n/a", f"≥ {WANTED['qwen_tts']:g}", "n/a"]
    assert broken.count("n/a") == 9
    assert "its first audio comes with its last" in text
    assert "not \\| installed" in text


# --- processes ------------------------------------------------------------------------------------


def test_output_that_was_cut_off_counts_as_far_as_it_goes():
    lines = [{"about": {"python": "3"}}, result(), {"done": LARGE}, result(model=SMALL)]
    output = "".join(json.dumps(line) + "\n" for line in lines) + '{"model": "qwen'
    about, results = understand(output, peers.MODELS, "not done within 1 s")
    assert about == {"python": "3"}
    assert results == [result(), result(model=SMALL), {"model": SMALL, "error": "not done within 1 s"}]
    assert understand("", [LARGE], None)[1][0]["error"]


def test_a_process_that_does_not_end_is_ended(worker):
    worker("import time\ntime.sleep(600)\n")
    about, results = peers.run_system("qwen_tts", sys.executable, PLAN, limit_s=1)
    assert results == [{"model": LARGE, "error": "not done within 1 s"}]
    assert about["ended"] == "not done within 1 s"


def test_a_process_gets_its_plan_and_another_interpreter_none_of_our_packages(worker, monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", "/ours/only")
    worker(
        "import json, os, sys\nplan = json.load(sys.stdin)\n"
        "print(json.dumps({'model': plan['models'][0], 'error': plan['system'] + os.environ['PYTHONPATH']}))\n"
        "print(json.dumps({'done': plan['models'][0]}))\n"
    )
    _, (same,) = peers.run_system("ours", sys.executable, PLAN, limit_s=60)
    assert same["error"].startswith("ours") and "/ours/only" in same["error"]
    other = tmp_path / "python"
    other.symlink_to(sys.executable)
    _, (alone,) = peers.run_system("qwen_tts", str(other), PLAN, limit_s=60)
    assert alone["error"].startswith("qwen_tts") and "/ours/only" not in alone["error"]


def test_rows_are_stored_by_model_beside_the_table(monkeypatch, tmp_path, capsys):
    def run_system(system, python, plan, limit_s):
        if system == "qwen_tts":
            return {"took_s": 1.0}, [{"model": model, "error": "not installed: qwen_tts"} for model in plan["models"]]
        wall_s = (0.4,) if system == "ours" else (1.6,)
        return {"took_s": 1.0}, [result(model=model, wall_s=wall_s) for model in plan["models"]]

    monkeypatch.setattr(peers, "run_system", run_system)
    out = tmp_path / "peers.json"
    assert peers.main(["--out", str(out)]) == 0
    stored = json.loads(out.read_text(encoding="utf-8"))
    assert [row["model"] for row in stored["rows"]] == [LARGE] * 3 + [SMALL] * 3
    assert [row.get("rtf_ratio") for row in stored["rows"][:3]] == pytest.approx([1.0, None, 4.0])
    assert stored["command"] == f"python -m benchmarks.peers --out {out}"
    assert out.with_suffix(".md").read_text(encoding="utf-8").strip() == capsys.readouterr().out.strip()
    assert peers.main(["--systems", "qwen_tts"]) == 1
