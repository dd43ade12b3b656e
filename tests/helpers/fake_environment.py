"""An environment with fake servers in its bin folder, and what became of their processes."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from processes import gone
from repository import HELPERS

from omni_bench.records.config import TargetConfig

FAKE_CLI = HELPERS / "fake_speech_cli.py"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class FakeEnvironment:
    """A folder like a virtual environment: ``bin/python``, ``bin/vllm``, ``bin/sgl-omni``, and their packages."""

    folder: Path
    packages: list[str] = field(default_factory=lambda: ["vllm-omni", "sglang-omni"])

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")

    @property
    def model(self) -> Path:
        return self.folder / "model"

    @property
    def pids(self) -> list[int]:
        return [int(path.name) for path in (self.folder / "pids").iterdir()]

    def make(self) -> None:
        for name in ("bin", "pids", "model", "site"):
            (self.folder / name).mkdir(parents=True)
        (self.model / "config.json").write_text("{}", encoding="utf-8")
        site = self.folder / "site"
        self._program("python", f'#!/bin/sh\nPYTHONPATH={site} exec {sys.executable} "$@"\n')
        for name in ("vllm", "sgl-omni"):
            self._program(name, f"#!{sys.executable}\n{FAKE_CLI.read_text(encoding='utf-8')}")
        for package in self.packages:
            info = site / f"{package.replace('-', '_')}-0.30.0.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.30.0\n")
            (info / "direct_url.json").write_text(
                json.dumps({"url": "https://example.invalid/x.git", "vcs_info": {"vcs": "git", "commit_id": COMMIT}})
            )

    def _program(self, name: str, text: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def target(self, kind: str, manners: str = "", **changes: object) -> TargetConfig:
        """The configuration of a target of ``kind`` that launches the fake server."""
        config = TargetConfig(
            kind=kind,
            python=self.python,
            env={"FAKE_MANNERS": manners, "FAKE_PIDS": str(self.folder / "pids")},
            startup_timeout_s=60.0,
            stop_timeout_s=1.0,
        )
        if kind == "command":
            config.command = f"{self.folder}/bin/vllm serve {self.model} --omni --host {{host}} --port {{port}}"
        else:
            config.model = str(self.model)
        for name, value in changes.items():
            setattr(config, name, value)
        return config

    def assert_nothing_runs(self, at_least: int = 1) -> None:
        """Every process that a fake server has started ends within a generous while."""
        deadline = time.monotonic() + 20
        while left := [pid for pid in self.pids if not gone(pid)]:
            assert time.monotonic() < deadline, f"still running: {left}"
            time.sleep(0.02)
        assert len(self.pids) >= at_least

    def kill_all(self) -> None:
        """End what a failed test has left running."""
        for pid in self.pids:
            if not gone(pid):
                psutil.Process(pid).kill()
