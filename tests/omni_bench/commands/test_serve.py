"""``omni-bench serve``."""

from __future__ import annotations

import sys

from omni_bench.commands import serve
from omni_bench.commands.cli import main
from omni_bench.targets.probe import free_port
from reference_impl.settings import ServerSettings


def test_the_process_becomes_the_server(monkeypatch, capsys):
    calls = []
    monkeypatch.setattr(serve.os, "execve", lambda *arguments: calls.append(arguments))
    main(["serve", "--port", "0", "reference.chunk_frames=4", "reference.device=cpu"])
    ((program, command, env),) = calls
    assert program == command[0] == sys.executable and env["PYTHONUNBUFFERED"] == "1"
    assert "--parent-pid" not in command, "a server in the foreground is its own"
    options = dict(zip(command[4::2], command[5::2], strict=True))
    assert options["--host"] == "127.0.0.1" and options["--port"] == "0"
    settings = ServerSettings.from_json(options["--settings"])
    assert settings.chunk_frames == 4 and settings.device == "cpu"
    assert "serving on a free port of 127.0.0.1" in capsys.readouterr().err


def test_random_weights_can_be_served(monkeypatch, capsys):
    calls = []
    monkeypatch.setattr(serve.os, "execve", lambda *arguments: calls.append(arguments))
    port = str(free_port("127.0.0.1"))
    main(["serve", "--port", port, "reference=qwen3_tts_0_6b_random"])
    assert '"checkpoint": "random"' in " ".join(calls[0][1])
    assert f"serving at http://127.0.0.1:{port} once the log says ready; Ctrl-C ends it" in capsys.readouterr().err
