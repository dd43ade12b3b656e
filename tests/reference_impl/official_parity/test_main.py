"""The command, where the official package is not installed (the main environment) and where it is."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

INSTALLED = importlib.util.find_spec("qwen_tts") is not None


@pytest.mark.skipif(INSTALLED, reason="the official package is installed")
def test_without_the_official_package_it_says_what_is_missing(tmp_path):
    command = [sys.executable, "-m", "reference_impl.official_parity", "--out", str(tmp_path / "parity.md")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 2
    assert "is not installed; `make parity`" in run.stderr
    assert not (tmp_path / "parity.md").exists()
