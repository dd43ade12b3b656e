"""How long a run takes once its load has ended: checks, figures and the report, in seconds for 1,000 answers.

    python benchmarks/after_load.py                                        2,000 answers of 4 s, 40 a second
    python benchmarks/after_load.py --answers 19200 --seconds 3.7 --plots

A folder is made as a run leaves it that was killed at the end of its load, with the recordings of the bundled data set
in the place of answers, and `omni-bench report` is timed on it. Every answer is cut from its recording, with noise of
two 16-bit steps, so that no two are equal.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import soundfile

from omni_bench.datasets.load import load_prompts
from omni_bench.records.config import RunConfig
from omni_bench.records.invalid_reason import Code, invalid
from omni_bench.records.level import Rate
from omni_bench.records.prompt import Prompt
from omni_bench.records.run_folder import RunFolder
from omni_bench.records.timeline import Timeline
from omni_bench.run.config.compose import compose
from omni_bench.run.document import build_run
from omni_bench.run.provenance import provenance
from omni_bench.run.server_facts import ServerFacts, target_facts
from omni_bench.run.stored_results import request_record

RATE_HZ, CHUNK_S, LATENCY_S, RTF = 24_000, 0.08, 0.2, 0.8


def main() -> int:
    """Make the folder, time the report, print; the exit code of `omni-bench report`, if that is no verdict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=4.0, help="of audio in each, on average")
    parser.add_argument("--rate", type=float, default=40.0, help="requests a second")
    parser.add_argument("--plots", action="store_true")
    parser.add_argument("--in", dest="folder", type=Path, help="keep the folder there, or use the one that is there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="omni-bench-after-load-") as temporary:
        folder = arguments.folder or Path(temporary) / "run"
        if not folder.exists():
            make_folder(folder, arguments.answers, arguments.seconds, arguments.rate, plots=arguments.plots)
        begun_json = (folder / "begun.json").read_bytes()
        started, cpu = time.monotonic(), os.times()
        code = subprocess.call([sys.executable, "-m", "omni_bench", "report", str(folder)], stdout=subprocess.DEVNULL)
        wall_s, end = time.monotonic() - started, os.times()
        cpu_s = end.children_user + end.children_system - cpu.children_user - cpu.children_system
        (folder / "run.json").unlink(missing_ok=True)
        (folder / "begun.json").write_bytes(begun_json)  # as it was
        answers = sum(1 for _ in (folder / "requests.jsonl").open("rb"))
        page_mb = (folder / "report.html").stat().st_size / 1e6
    print(
        f"{answers} answers: {wall_s:.1f} s, {cpu_s:.1f} s of CPU; for 1,000 answers {1000 * wall_s / answers:.2f} s "
        f"and {1000 * cpu_s / answers:.2f} s of CPU; report.html {page_mb:.2f} MB"
    )
    return code if code > 1 else 0


def make_folder(path: Path, answers: int, seconds: float, rate: float, *, plots: bool) -> None:
    """A run that was killed when its load had ended."""
    overrides = {
        "scenario": "smoke",
        "load": "open_loop",
        "load.rate_hz": f"[{rate}]",
        "load.requests_per_level": answers,
        "asr": "none",
        "target": "external",
        "target.url": "http://127.0.0.1:1",
        "dataset.allow_repeats": "true",
        "output.save_audio": "none",
        "output.plots": str(plots).lower(),
    }
    config = compose([f"{key}={value}" for key, value in overrides.items()])
    prompts = load_prompts(config.dataset, answers)
    clips = {one.id: samples_of(one) for one in prompts}
    rng = np.random.default_rng(0)
    with RunFolder.create(path) as folder:
        folder.write_begun(begun(config, prompts))
        spool = folder.next_attempt()
        spool.mkdir(parents=True)
        for number, prompt in enumerate(prompts):
            length = round(RATE_HZ * seconds * rng.uniform(0.5, 1.5))
            pcm = np.resize(clips[prompt.id], length) + rng.integers(-2, 3, length).astype("<i2")
            timeline = timeline_of(number, prompt, length, rate)
            (spool / f"{timeline.request_id}.pcm").write_bytes(pcm.astype("<i2").tobytes())
            folder.append_request(request_record(timeline, prompt))


def samples_of(prompt: Prompt) -> np.ndarray:
    """Its reference recording, int16 at its own rate: what is counted is work, and not how it sounds."""
    samples, _ = soundfile.read(prompt.ref_audio, dtype="int16", always_2d=True)
    return samples[:, 0]


def begun(config: RunConfig, prompts: list[Prompt]) -> dict[str, object]:
    """begun.json of a run with ``config``."""
    counts = {"dataset": config.dataset.name, "locale": config.dataset.spoken, "count": len(prompts)}
    return build_run(
        scenario=config.scenario.name,
        description=config.scenario.description,
        started_utc=datetime.now(UTC),
        duration_s=None,
        levels=[],
        provenance=provenance(
            config,
            command=("omni-bench", "run"),
            target=target_facts(config.target, None, ServerFacts()),
            prompts={**counts, "measured": len(prompts), "warmup": 0, "sha256": "0" * 64},
            judge=None,
            with_gpus=False,
        ),
        reasons=[invalid(Code.INTERRUPTED)],
    )


def timeline_of(number: int, prompt: Prompt, samples: int, rate: float) -> Timeline:
    """Answered a little faster than real time, a frame of 80 ms at a time."""
    started_ns = round(1e9 * number / rate)
    chunks = [round(CHUNK_S * RATE_HZ)] * (samples // round(CHUNK_S * RATE_HZ))
    chunks += [samples - sum(chunks)] if samples > sum(chunks) else []
    arrived_ns = tuple(round(started_ns + 1e9 * (LATENCY_S + RTF * CHUNK_S * index)) for index in range(len(chunks)))
    return Timeline(
        request_id=f"r{rate:g}-{number:05d}",
        prompt_id=prompt.id,
        concurrency=Rate(rate),
        seed=number,
        scheduled_ns=started_ns,
        started_ns=started_ns,
        headers_ns=started_ns + 1_000_000,
        first_byte_ns=arrived_ns[0],
        first_audio_ns=arrived_ns[0],
        ended_ns=arrived_ns[-1] + 1_000_000,
        failed_ns=None,
        chunk_arrived_ns=arrived_ns,
        chunk_bytes=tuple(2 * chunk for chunk in chunks),
        sample_rate_hz=RATE_HZ,
        sample_width_bytes=2,
        http_status=200,
        error=None,
        rate_stated=True,
    )


if __name__ == "__main__":
    sys.exit(main())
