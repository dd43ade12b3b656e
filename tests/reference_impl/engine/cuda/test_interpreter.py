"""The kernels that are plain Triton on a CPU, in Triton's interpreter: their arithmetic without a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from repository import ROOT

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.skipif(
    find_spec("triton") is None, reason="Triton is not installed (it comes with CUDA builds of PyTorch)"
)
def test_products_and_draws() -> None:
    parts = (
        "linear", "drawing", "code2wav_front", "prefill_heads", "prefill", "step", "code2wav_kernels",
    )  # fmt: skip
    names = [f"test_{part}.py" for part in parts]
    files = [str(HERE / name) for name in names]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files, "-k", "float32 or ties"],
        env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout
