"""What a target is: a server, started here or elsewhere, and what must be known of it before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from omni_bench.errors import OmniBenchError
from omni_bench.foreign_text import stated
from omni_bench.records.config import RunConfig, TargetConfig

if TYPE_CHECKING:
    from omni_bench.targets.launch import NamedServer


@dataclass(frozen=True)
class TargetInfo:
    """Facts about a running server for the provenance of a run.

    ``health`` and ``models`` are what ``/health`` and ``/v1/models`` answered, None where
    the server has no such endpoint or did not answer in JSON; of long answers :func:`~omni_bench.foreign_text.stated`
    keeps the beginning. ``startup_s``: from launch
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

    def __post_init__(self) -> None:
        for name in ("health", "models", "stated_version"):
            object.__setattr__(self, name, stated(getattr(self, name)))

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


OK, NOTE, PROBLEM = "ok", "note", "PROBLEM"


@dataclass(frozen=True)
class Finding:
    """One line: ``state`` is ``ok``, ``note`` (something is not available, the job goes on) or ``PROBLEM``."""

    state: str
    what: str
    detail: str


def checked(what: str, check: Callable[[], Finding]) -> Finding:
    """The finding of ``check``; what it raises is a problem with its own message."""
    try:
        return check()
    except (OmniBenchError, ImportError, OSError) as error:
        return Finding(PROBLEM, what, str(error))


@dataclass(frozen=True)
class TargetKind:
    """A kind of target, chosen by ``target.kind``. ``what``: a line for people.

    ``create``: from a configuration and the path of the server's log to the target. ``findings``: what it needs, for
    ``omni-bench doctor``. ``validate`` raises ConfigError for values that it cannot take, ``check`` OmniBenchError,
    before every run, where it cannot be launched here. ``takes``: keys of the target's configuration that are not
    for every kind (:data:`omni_bench.run.config.validate_target.OWN_KEYS`). ``defaults``: of its configuration.
    ``server``: whose presence ``omni-bench doctor`` tells also where another target is configured.
    """

    name: str
    what: str
    create: Callable[[RunConfig, Path], Target]
    findings: Callable[[RunConfig], Iterator[Finding]] = lambda config: iter(())
    validate: Callable[[TargetConfig], None] = lambda target: None
    check: Callable[[RunConfig], None] = lambda config: None
    takes: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    server: NamedServer | None = None
