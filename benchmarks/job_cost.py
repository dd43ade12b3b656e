"""Wall time and peak memory of a whole run, with every process it starts.

    python benchmarks/job_cost.py                                  the main job
    python benchmarks/job_cost.py scenario=smoke asr=none          any other arguments of `omni-bench run`

Memory is the sum of the proportional set size (PSS, shared pages counted once; resident set
size where the system does not tell PSS) over the process tree, sampled twice a second.
"""

from __future__ import annotations

import subprocess
import sys
import time

import psutil

INTERVAL_S = 0.5


def tree_bytes(root: psutil.Process) -> int:
    """Memory of a process and its descendants now; processes that end meanwhile count as 0."""
    total = 0
    for process in (root, *root.children(recursive=True)):
        try:
            memory = process.memory_full_info()
            total += getattr(memory, "pss", 0) or memory.rss
        except psutil.Error:
            continue
    return total


def main() -> int:
    """Run and print; returns the run's own exit code."""
    arguments = sys.argv[1:] or ["scenario=qwen3_tts_c16"]
    started = time.monotonic()
    run = subprocess.Popen([sys.executable, "-m", "omni_bench", "run", *arguments])
    root, peak = psutil.Process(run.pid), 0
    while run.poll() is None:
        try:
            peak = max(peak, tree_bytes(root))
        except psutil.NoSuchProcess:
            break
        time.sleep(INTERVAL_S)
    code = run.wait()
    seconds = time.monotonic() - started
    print(f"omni-bench run {' '.join(arguments)}: {seconds:.0f} s, peak {peak / 1e9:.2f} GB, exit {code}")
    return code


if __name__ == "__main__":
    sys.exit(main())
