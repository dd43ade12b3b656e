"""What the orchestration needs of a server, whoever started it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True)
class TargetInfo:
    """Facts about a running server for the provenance of a run.

    ``health`` and ``models`` are what ``/health`` and ``/v1/models`` answered, None where
    the server has no such endpoint or did not answer in JSON. ``startup_s``: from launch
    (or first contact) until ready. ``chaos``: the fault of the wire that is injected before it,
    with ``upstream``, the server's own address; None if there is none.
    ``environment``: Python and package versions of the environment it was launched in, if that is not this one.
    ``version`` and ``commit``: of the server's own package there; ``stated_version``: the answer of ``/version``.
    """

    kind: str
    base_url: str
    startup_s: float
    command: tuple[str, ...] | None
    health: Any
    models: Any
    chaos: dict[str, Any] | None = None
    environment: dict[str, Any] | None = None
    version: str | None = None
    commit: str | None = None
    stated_version: Any = None

    def as_dict(self) -> dict[str, Any]:
        """Plain types, for run.json."""
        return asdict(self)


class Target(Protocol):
    """A server from launch to stop. ``stop`` may be called at any time, any number of times."""

    base_url: str
    log_path: Path | None

    def start(self) -> TargetInfo:
        """Launch (or find) the server and wait until it is ready. Raises TargetError."""

    def is_alive(self) -> bool:
        """False once the server is known to be gone. Does not block."""

    def failure(self) -> str:
        """Why the server is gone, with the end of its log, for an error message."""

    def stop(self) -> None:
        """End the server and all its children, if it was launched here."""
