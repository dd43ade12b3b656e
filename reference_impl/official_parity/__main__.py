"""``python -m reference_impl.official_parity``: build, compare, print the table; exit 1 if anything differs."""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

import torch

from reference_impl.loading.checkpoint import load_model
from reference_impl.official_parity.table import Result, document, render

CHECKED = ("qwen-tts", "transformers", "torch", "tokenizers")
SEED = 3


def main(argv: Sequence[str] | None = None) -> int:
    """0: all within the limits; 1: something is not; 2: the official package is not installed."""
    options = _parser().parse_args(argv)
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    try:
        versions = {name: version(name) for name in CHECKED}
    except ImportError as error:
        print(f"error: {error.name} is not installed; `make parity` makes an environment for it", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        results = list(_compare(Path(folder)))
    print(render(results))
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(document(results, versions), encoding="utf-8")
    failed = [result.module for result in results if not result.passed]
    print(f"{len(failed)} of {len(results)} checks failed" if failed else f"all {len(results)} checks passed")
    return 1 if failed else 0


def _compare(folder: Path) -> Iterator[Result]:
    # imported here: the official package is not part of the main environment, and its import talks
    with contextlib.redirect_stdout(io.StringIO()):
        from reference_impl.official_parity import checks, official, processors

        qwen_tts = official.import_official()
    yield from processors.check_processors()
    for kind in official.KINDS:
        path = folder / kind.task
        with contextlib.redirect_stdout(io.StringIO()), torch.inference_mode(False):
            official.save_checkpoint(path, kind, SEED)
            theirs = qwen_tts.Qwen3TTSModel.from_pretrained(str(path), dtype=torch.float32)
        ours = load_model(path, torch.device("cpu"), torch.float32, max_positions=512, max_frames=512)
        pair = checks.Pair(kind, theirs, ours)
        for check in (
            checks.check_prompts,
            checks.check_generation,
            checks.check_end,
            checks.check_audio,
            checks.check_predictor,
            checks.check_code2wav,
            checks.check_encoders,
        ):
            yield from check(pair)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m reference_impl.official_parity",
        description="Compare the reference model with the official qwen-tts package on random weights.",
        epilog="example: python -m reference_impl.official_parity --out reports/parity.md",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the report as Markdown, too")
    return parser


if __name__ == "__main__":
    sys.exit(main())
