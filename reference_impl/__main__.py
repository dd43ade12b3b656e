"""``python -m reference_impl``: the reference server as a process of its own."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import threading
from collections.abc import Sequence

from omni_bench.errors import OmniBenchError
from omni_bench.subprocesses import port, process_id
from reference_impl.engine_api import EngineLike
from reference_impl.http.server import serve
from reference_impl.remote.client import EngineProcess
from reference_impl.remote.process import LOG_FORMAT
from reference_impl.settings import ServerSettings


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until told to stop; the exit code: 0 after a clean stop, else the error's."""
    options = _parser().parse_args(argv)
    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)
    try:
        settings = ServerSettings.from_json(options.settings)
        process = EngineProcess() if settings.in_two_processes() else None
        load = process.load if process else _load_engine
        try:
            serve(lambda: load(settings), options.host, options.port, options.parent_pid, settings.chat_token_ms)
        finally:
            if process:
                process.end()
    except OmniBenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:  # before the signal handlers were in place
        return 130
    return 0


def _load_engine(settings: ServerSettings) -> EngineLike:
    # Imported here, in the loading thread: PyTorch takes seconds, the port is bound before.
    from reference_impl.build import build_engine

    return build_engine(settings)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m reference_impl",
        description="Serve the reference implementation: speech, streamed speech, WebSocket and chat forms.",
        epilog="example: python -m reference_impl --port 8091 --settings '{\"max_batch\": 16}'",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to bind (default: %(default)s)")
    parser.add_argument("--port", type=port, default=8091, help="0 takes any free one (default: %(default)s)")
    parser.add_argument(
        "--settings", default="{}", metavar="JSON", help="fields of ServerSettings; others keep defaults"
    )
    parser.add_argument("--parent-pid", type=process_id, metavar="N", help="end when process N is gone")
    return parser


def _exit(code: int) -> None:
    """End the process without waiting for a thread that still loads or hangs in PyTorch."""
    sys.stdout.flush()
    sys.stderr.flush()
    if threading.active_count() > 1:
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    _exit(main())
