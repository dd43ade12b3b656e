"""The command as a user runs it, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def omni_bench(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
    """``omni-bench ARGUMENTS`` in ``folder``, to its end; ``environment`` beside this process's own."""
    return subprocess.run(
        [sys.executable, "-m", "omni_bench", *arguments],
        cwd=folder,
        env={**os.environ, "COLUMNS": "200", **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
