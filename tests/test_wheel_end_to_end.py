"""The wheel of this tree, as `pip install` would unpack it: complete, and at work in an empty folder."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile

import pytest
from command_line import omni_bench
from repository import ROOT


@pytest.fixture(scope="module")
def unpacked_wheel(tmp_path_factory):
    """The wheel built from this tree, unpacked: what `pip install` would put into site-packages."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    done = subprocess.run([*build, str(ROOT)], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("omni_bench-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_wheel_holds_voice_scenarios_and_data_and_works_in_an_empty_folder(unpacked_wheel, tmp_path):
    assert sorted(p.name for p in unpacked_wheel.iterdir() if not p.name.endswith(".dist-info")) == [
        "omni_bench",
        "reference_impl",
    ]
    assert len(list((unpacked_wheel / "reference_impl" / "checkpoints" / "tiny").glob("*.safetensors"))) == 3
    listed = omni_bench(tmp_path, "list", PYTHONPATH=str(unpacked_wheel))
    assert listed.returncode == 0, listed.stderr
    assert "qwen3_tts_c16" in listed.stdout and "seed_tts_mini" in listed.stdout
    where = "import omni_bench, sys; sys.exit(0 if omni_bench.__file__.startswith(sys.argv[1]) else 1)"
    environment = {**os.environ, "PYTHONPATH": str(unpacked_wheel)}
    assert (
        subprocess.run([sys.executable, "-c", where, str(unpacked_wheel)], cwd=tmp_path, env=environment).returncode
        == 0
    )
    small = ("load.requests_per_level=1", "load.requests_per_slot=1", "load.concurrency=[1]")
    small += ("load.lag_budget_ms=10000", "asr=none", "output.plots=false")
    done = omni_bench(tmp_path, "run", "scenario=smoke", *small, PYTHONPATH=str(unpacked_wheel))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1/1" in done.stdout
