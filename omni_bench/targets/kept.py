"""Servers that stay alive from one run to the next: of a run, only the load is then its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from omni_bench.errors import TargetError
from omni_bench.records.config import RunConfig
from omni_bench.records.files import os_errors_as_store_errors
from omni_bench.targets.base import Target, TargetInfo
from omni_bench.targets.create import create_target


class KeptTarget:
    """A target whose ``start`` finds the server that runs already, and whose ``stop`` leaves it alone."""

    def __init__(self, target: Target):
        self._target = target
        self._info: TargetInfo | None = None
        self.log_path = target.log_path

    @property
    def base_url(self) -> str:
        """Of the server."""
        return self._target.base_url

    def start(self) -> TargetInfo:
        """Start it the first time; then what was found at that time. Raises TargetError, also if it has ended since."""
        if self._info is None:
            self._info = self._target.start()
        elif not self.is_alive():
            raise TargetError(f"the server that was kept alive between runs has ended: {self.failure()}")
        return replace(self._info)

    def is_alive(self) -> bool:
        """False once the server is known to be gone."""
        return self._target.is_alive()

    def failure(self) -> str:
        """Why the server is gone."""
        return self._target.failure()

    def stop(self) -> None:
        """Nothing: :meth:`release` ends the server."""

    def release(self) -> None:
        """End the server, if it was launched here."""
        self._target.stop()


class KeptServers:
    """Servers by name, all alive at once; their logs lie in ``folder``."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._targets: dict[str, KeptTarget] = {}

    def open(self, name: str, config: RunConfig) -> bool:
        """Start a server; False if it runs already. Raises TargetError, with none of all left alive, and StoreError."""
        if name in self._targets:
            return False
        with os_errors_as_store_errors("make", self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
        target = self._targets[name] = KeptTarget(create_target(config, self._folder / f"{name}.log"))
        try:
            target.start()
        except BaseException:
            self.close()
            raise
        return True

    def __contains__(self, name: str) -> bool:
        return name in self._targets

    def target(self, name: str) -> KeptTarget:
        """The one that runs under this name. Raises KeyError."""
        return self._targets[name]

    def close(self) -> None:
        """End all of them, the last first."""
        while self._targets:
            _, target = self._targets.popitem()
            target.release()
