"""The execution ladder of the reference server on one card: what each step of it buys.

    python -m benchmarks.ladder --out ladder.json --markdown ladder.md
    python -m benchmarks.ladder --models qwen3_tts_1_7b --rungs full_step --concurrency 1 32 --repeats 3
    python -m benchmarks.ladder --models qwen3_tts_1_7b --rungs full_step --frames 46 --unequal --rounds 6
    python -m benchmarks.ladder --check-codes --rungs full_step --models

Offline, through the engine (``reference_impl/roofline/closed_loop.py``; no HTTP), with random weights and
utterances of one length, so that all places end and begin together, or with ``--unequal`` of half to
one and a half times that, so that they end one by one as sentences do. Closed loop: a request that ends
is followed by the next at once. The floor is that of ``reference_impl/roofline/cost_model.py`` with this card's
measured limits.

Every row has ``--row-seconds``: utterances of rungs too slow for ``--frames`` are shorter, and
the table says how long they were. Results are written after every row; once ``--most-seconds``
are over, the rows that are left say so instead of a number.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.ladder.codes import check_codes, engine_of
from omni_bench.errors import OmniBenchError
from omni_bench.report.table import markdown_table
from reference_impl.engine.engine import Engine
from reference_impl.engine.execution import restore_layers
from reference_impl.loading.checkpoint import Model
from reference_impl.loading.from_settings import load_weights
from reference_impl.roofline.closed_loop import Pace, closed_loop, text_of
from reference_impl.roofline.cost_model import Limits, Weights, count_weights, frame_cost
from reference_impl.roofline.device_limits import measure_limits
from reference_impl.settings import ServerSettings

RUNGS = {
    "host_roundtrip": {"graphs": "off", "fault": "host_roundtrip"},
    "eager": {"graphs": "off"},
    "compile": {"graphs": "compile"},
    "cuda_graph": {"graphs": "cuda_graph"},
    "full_step": {"graphs": "full_step"},
}
SLOW = ("host_roundtrip", "eager", "compile")
"""Measured at the first and the last concurrency only."""

FLOOR_CONTEXT = 256
PROBE_FRAMES = 4
LEAST_FRAMES = 12
HEADERS = (
    "model", "execution", "c", "frames", "ms a frame", "RTF", "audio-s/s", "TTFP p50 (ms)", "step (ms)",
    "share of the floor", "stalls (s)", "peak (GB)", "codes",
)  # fmt: skip

Row = dict[str, Any]


class Results:
    """The rows so far, kept on disk from the first one on."""

    def __init__(self, out: Path | None, markdown: Path | None, more: dict[str, Any]):
        self._out, self._markdown = out, markdown
        self.document: dict[str, Any] = {
            "device": torch.cuda.get_device_name(),
            "torch": torch.__version__,
            "command": shlex.join(["python", "-m", "benchmarks.ladder", *sys.argv[1:]]),
            "settings": more,
            "rows": [],
        }

    def add(self, row: Row) -> None:
        """Print a row and write everything."""
        self.document["rows"].append(row)
        print("  ".join(cell for cell in cells(row) if cell), flush=True)
        if self._out:
            self._out.write_text(json.dumps(self.document, indent=1))
        if self._markdown:
            self._markdown.write_text(render(self.document))


def cells(row: Row) -> list[str]:
    """A row for people, with the columns of HEADERS."""
    name, rung, codes = row["model"], row["rung"], row.get("codes", "not checked")
    if "error" in row:
        where = str(row["concurrency"]) if "concurrency" in row else ""
        return [name, rung, where, row["error"], *[""] * (len(HEADERS) - 5), codes]
    lengths = f"{row['rounds']} x {row['frames_each']:.0f}" + (" ± 50 %" if row.get("unequal") else "")
    spread = f" ({min(row['runs_ms']):.2f}-{max(row['runs_ms']):.2f})" if len(row["runs_ms"]) > 1 else ""
    return [
        name, rung, str(row["concurrency"]), lengths,
        f"{row['ms_per_frame']:.2f}{spread}", f"{row['rtf']:.4f}", f"{row['audio_per_s']:.1f}",
        f"{row['ttfp_p50_ms']:.1f}", f"{row['step_ms']:.2f}", f"{row['floor_share']:.0%}", f"{row['stall_s']:.2f}",
        f"{row['peak_gb']:.1f}", codes,
    ]  # fmt: skip


def render(document: dict[str, Any]) -> str:
    """The table with what it rests on."""
    limits = document.get("limits")
    floor = (
        f" The floor is computed from the modules' own sizes with this card's measured "
        f"{limits['bytes_per_s'] / 1e12:.2f} TB/s of copy traffic and {limits['flop_per_s'] / 1e12:.0f} TFLOP/s, "
        f"{FLOOR_CONTEXT} positions of context."
        if limits
        else ""
    )
    return (
        f"{markdown_table(HEADERS, [cells(row) for row in document['rows']])}\n\n"
        f"{document['device']}, PyTorch {document['torch']}. `frames`: utterances one after the other in each place, "
        f"and frames of each; more than one run: the median, and the range behind it. `ms a frame`: wall time of "
        f"everything over the frames each place spoke.{floor} `codes`: whether this rung spoke the codes of the eager "
        f"one, alone and in company, in float32 at a small size (`benchmarks/ladder/codes.py`).\n\n"
        f"```sh\n{document['command']}\n```\n"
    )


def texts_around(frames: int, frame_rate_hz: float, count: int = 16) -> list[str]:
    """Texts as :func:`text_of`, evenly from half of ``frames`` to one and a half times that, ``frames`` on average."""
    return [text_of(round(frames * (0.5 + (i + 0.5) / count)), frame_rate_hz) for i in range(count)]


def fitting_frames(engine: Engine, concurrency: int, rounds: int, wanted: int, row_s: float) -> int:
    """How long ``rounds`` utterances in each place may be to take ``row_s``; at most ``wanted`` frames."""
    rate_hz = engine.model.config.frame_rate_hz
    closed_loop(engine, text_of(PROBE_FRAMES, rate_hz), concurrency, 1)
    probe = closed_loop(engine, text_of(PROBE_FRAMES, rate_hz), concurrency, 1)
    # the prefills are in it, so that longer utterances take less a frame than this
    return max(LEAST_FRAMES, min(wanted, int(row_s * 1e3 / (probe.ms_per_frame * rounds))))


def measure(
    engine: Engine, concurrency: int, frames: int, unequal: bool, rounds: int, repeats: int, limits: Limits,
    weights: Weights,
) -> Row:  # fmt: skip
    """One row: the run with the median pace of ``repeats``."""
    model, settings = engine.model, engine.settings
    texts_of = texts_around if unequal else text_of
    text = texts_of(frames, model.config.frame_rate_hz)
    closed_loop(engine, text, concurrency, 1)
    torch.cuda.reset_peak_memory_stats()
    runs: list[Pace] = [closed_loop(engine, text, concurrency, rounds, seed=7 * run) for run in range(repeats)]
    pace = sorted(runs, key=lambda run: run.ms_per_frame)[(repeats - 1) // 2]
    cost = frame_cost(
        model.config, weights, batch=concurrency, context=FLOOR_CONTEXT, chunk_frames=settings.chunk_frames,
        element_bytes=model.dtype.itemsize,
    )  # fmt: skip
    return {
        **pace.summary(),
        "rounds": rounds,
        "unequal": unequal,
        "frames_each": pace.frames / len(pace.spoken),
        "runs_ms": [run.ms_per_frame for run in runs],
        "runs_stall_s": [run.stall_s for run in runs],
        "runs_ttfp_p50_ms": [median(run.ttfp_ms) for run in runs],
        "floor_ms": cost.floor_s(limits) * 1e3,
        "floor_share": cost.floor_s(limits) * 1e3 / pace.ms_per_frame,
        "peak_gb": torch.cuda.max_memory_allocated() / 1e9,
        "reserved_gb": torch.cuda.memory_reserved() / 1e9,
    }


def climb(args: argparse.Namespace, results: Results, name: str, more: dict[str, Any], codes: dict[str, str]) -> None:
    """Every rung for one model."""
    base = {"preset": name, "checkpoint": "random", "device": "cuda", "max_batch": max(args.concurrency), **more}
    model, _ = load_weights(ServerSettings(**base))
    limits, weights = measure_limits(model.device, model.dtype), count_weights(model.config)
    results.document.setdefault("limits", dataclasses.asdict(limits))
    for rung in args.rungs:
        slow = rung in SLOW
        levels = sorted({args.concurrency[0], args.concurrency[-1]}) if slow else args.concurrency
        rounds, repeats = 1 if slow else args.rounds, args.repeats if rung == "full_step" else 1
        head: Row = {"model": name, "rung": rung, "codes": codes.get(rung, "not checked")}
        if time.perf_counter() - BEGUN > args.most_seconds:
            results.add({**head, "error": f"not run: {args.most_seconds:.0f} s were over"})
            continue
        try:
            rung_of_ladder(args, results, model, ServerSettings(**{**base, **RUNGS[rung]}), levels, (rounds, repeats),
                           limits, weights, head)  # fmt: skip
        except (OmniBenchError, RuntimeError) as error:
            # one rung that cannot run is a result as well; the others still can
            results.add({**head, "error": f"{type(error).__name__}: {error}"})
        finally:
            restore_layers(model)


def rung_of_ladder(
    args: argparse.Namespace, results: Results, model: Model, settings: ServerSettings, levels: list[int],
    repetitions: tuple[int, int], limits: Limits, weights: Weights, head: Row,
) -> None:  # fmt: skip
    """One engine at every level."""
    torch.cuda.empty_cache()
    begun = time.perf_counter()
    engine = engine_of(model, settings)
    try:
        engine.warm_up()
        ready_s = time.perf_counter() - begun
        for concurrency in levels:
            if time.perf_counter() - BEGUN > args.most_seconds:
                error = f"not run: {args.most_seconds:.0f} s were over"
                results.add({**head, "concurrency": concurrency, "error": error})
                continue
            rounds, repeats = repetitions
            frames = fitting_frames(engine, concurrency, rounds * repeats + 1, args.frames, args.row_seconds)
            row = measure(engine, concurrency, frames, args.unequal, rounds, repeats, limits, weights)
            results.add({**head, **row, "ready_s": ready_s})
    finally:
        engine.stop()


BEGUN = time.perf_counter()


def main() -> None:
    """Print the table and store every number."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ladder", description=__doc__.split("\n")[0])
    parser.add_argument("--models", nargs="*", default=["qwen3_tts_1_7b", "qwen3_tts_0_6b"])
    parser.add_argument("--rungs", nargs="+", default=list(RUNGS), choices=list(RUNGS))
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 4, 8, 16, 32])
    parser.add_argument("--frames", type=int, default=100, help="of each utterance, where the rung is fast enough")
    parser.add_argument("--unequal", action="store_true", help="utterances of 0.5 to 1.5 times --frames")
    parser.add_argument("--rounds", type=int, default=2, help="utterances one after the other in each place")
    parser.add_argument("--repeats", type=int, default=1, help="runs of a full_step row; the median one counts")
    parser.add_argument("--row-seconds", type=float, default=12.0)
    parser.add_argument("--most-seconds", type=float, default=1800.0)
    parser.add_argument("--check-codes", action="store_true", help="first, at a small size: the eager rung's codes?")
    parser.add_argument("--set", nargs="*", default=[], metavar="FIELD=JSON", help="other settings of the server")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--markdown", type=Path)
    args = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("the ladder needs a CUDA device; on a CPU: omni-bench roofline reference.preset=tiny --measure")
    if min(args.rounds, args.repeats, args.frames, *args.concurrency) < 1:
        parser.error("--rounds, --repeats, --frames and --concurrency are at least 1")
    for path in (args.out, args.markdown):
        if path is not None and not path.resolve().parent.is_dir():
            parser.error(f"{path}: there is no folder {path.parent}")
    try:
        more = {key: json.loads(value) for key, value in (entry.split("=", 1) for entry in args.set)}
    except ValueError as error:
        parser.error(f"--set takes FIELD=JSON: {error}")
    results = Results(args.out, args.markdown, more)
    codes: dict[str, str] = {}
    if args.check_codes:
        for rung in args.rungs:
            codes[rung] = check_codes(RUNGS[rung], "cuda")
            print(f"codes of {rung}: {codes[rung]}", flush=True)
            if not args.models:
                results.add({"model": "small", "rung": rung, "codes": codes[rung], "error": "codes only"})
    for name in args.models:
        climb(args, results, name, more, codes)


if __name__ == "__main__":
    main()
