"""``python -m reference_impl`` with a fake engine: run as ``fake_engine_server.py KIND [arguments...]``.

KIND: ``ok``, ``gated`` (streams stop after their first chunk), ``wait:FILE`` (loading lasts
until FILE is there), ``config``, ``checkpoint`` or ``bug`` (loading raises that), ``vanish`` (loading
ends the process), ``hang`` (the engine's stop never returns). With ``--fd`` it is the engine's process.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import types
from pathlib import Path

import fake_engine

from omni_bench.errors import CheckpointError, ConfigError

KIND = sys.argv[1]


def build_engine(settings):
    if KIND == "config":
        raise ConfigError(f"reference.preset={settings.preset!r} is unknown")
    if KIND == "checkpoint":
        raise CheckpointError("talker.safetensors: no such file")
    if KIND == "bug":
        raise RuntimeError("out of memory")
    if KIND == "vanish":
        os.kill(os.getpid(), signal.SIGKILL)
    if KIND.startswith("wait:"):
        while not Path(KIND[5:]).exists():
            time.sleep(0.05)
    engine = fake_engine.FakeEngine(chunks=50, gated=KIND == "gated")
    engine.fault = settings.fault
    if KIND == "hang":
        engine.stop = lambda: time.sleep(1000)
    return engine


module = types.ModuleType("reference_impl.build")
module.build_engine = build_engine
sys.modules["reference_impl.build"] = module

if sys.argv[2] == "--fd":
    from reference_impl.remote import process

    process.main(sys.argv[2:])

from reference_impl import __main__ as server  # noqa: E402
from reference_impl.remote.client import EngineProcess  # noqa: E402

server.EngineProcess = lambda: EngineProcess([sys.executable, __file__, KIND, "--fd"])
server._exit(server.main(sys.argv[2:]))
