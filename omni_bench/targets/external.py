"""A server that is already running."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from omni_bench.errors import ConfigError, TargetError
from omni_bench.load.clients.urls import server_root, url_problem
from omni_bench.records.api_key import ApiKey, key_of
from omni_bench.records.config import RunConfig, TargetConfig
from omni_bench.targets.base import OK, PROBLEM, Finding, TargetInfo, TargetKind
from omni_bench.targets.probe import get, key_advice

POLL_S = 0.25
PROBE_TIMEOUT_S = 5.0
FINDING_TIMEOUT_S = 3.0


class ExternalTarget:
    """The server at ``config.url``. It is asked, never launched or stopped."""

    def __init__(self, config: TargetConfig, key: ApiKey | None = None):
        if config.url is None:
            raise TargetError("target.url is needed for an external target")
        self._config = config
        self._key = key
        self.base_url = server_root(config.url)
        self.log_path: Path | None = None

    def start(self) -> TargetInfo:
        """Wait until the server answers below 500 at ``health_path`` (404 too: not every server has it).

        Raises TargetError after ``startup_timeout_s``.
        """
        url = self.base_url + self._config.health_path
        started = time.monotonic()
        while True:
            left_s = self._config.startup_timeout_s - (time.monotonic() - started)
            answer = get(url, min(PROBE_TIMEOUT_S, max(left_s, 0.1)), self._key)
            if answer.status is not None and answer.status < 500:
                break
            if time.monotonic() - started + POLL_S > self._config.startup_timeout_s:
                where, within = f"target.url={self._config.url}", f"within {self._config.startup_timeout_s:g} s"
                if answer.status is not None:
                    hint = (
                        "wait longer for it (target.startup_timeout_s), or name another page that answers below 500 "
                        "once it is ready (target.health_path)"
                    )
                    said = f"{answer.said} and was not ready {within} (GET {url}); {hint}"
                    raise TargetError(f"the server at {where} {said}")
                hint = (
                    "start the server, correct target.url, or wait longer for it (target.startup_timeout_s); "
                    "omni-bench run target=reference launches one"
                )
                raise TargetError(f"no server answers at {where} {within} (GET {url}: {answer.problem}); {hint}")
            time.sleep(POLL_S)
        return TargetInfo(
            kind="external",
            base_url=self.base_url,
            startup_s=time.monotonic() - started,
            command=None,
            health=answer.json(),
            models=get(f"{self.base_url}/v1/models", PROBE_TIMEOUT_S, self._key).json(),
            stated_version=get(f"{self.base_url}/version", PROBE_TIMEOUT_S, self._key).json(),
        )

    def is_alive(self) -> bool:
        """True: whether a server elsewhere runs shows only in its answers."""
        return True

    def failure(self) -> str:
        """Says where to look, as the log is not here."""
        return f"the server at {self.base_url} is not run by omni-bench; see its own log"

    def stop(self) -> None:
        """Nothing: a server that was not launched here is left running."""


def _validate(target: TargetConfig) -> None:
    if not target.url:
        raise ConfigError("target.url is needed for target=external, such as target.url=http://127.0.0.1:8091")
    if (problem := url_problem(target.url)) is not None:
        raise ConfigError(f"target.url={problem}")
    for name in ("env", "python", "devices", "gpus", "cores"):
        if getattr(target, name):
            raise ConfigError(f"target.{name}: the target 'external' is not launched here, so that it cannot be set")


def _findings(config: RunConfig) -> Iterator[Finding]:
    root, key = server_root(config.target.url or ""), key_of(config.client)
    url = root + config.target.health_path
    answer = get(url, FINDING_TIMEOUT_S, key)
    if answer.status is None:
        yield Finding(PROBLEM, "server", f"no server answers at {url}: {answer.problem}")
        return
    advice = key_advice(answer.status, key)
    state = PROBLEM if advice or answer.status >= 500 else OK
    yield Finding(state, "server", f"{url} {answer.said}" + (f": {advice}" if advice else ""))
    if not advice:  # many servers ask for the key below /v1 alone
        answer = get(f"{root}/v1/models", FINDING_TIMEOUT_S, key)
        if advice := key_advice(answer.status, key):
            yield Finding(PROBLEM, "key", f"{root}/v1/models {answer.said}: {advice}")


TARGET = TargetKind(
    name="external",
    what="A server that already runs, at target.url; never stopped by omni-bench",
    create=lambda config, log_path: ExternalTarget(config.target, key_of(config.client)),
    findings=_findings,
    validate=_validate,
    takes=("url",),
    defaults={"startup_timeout_s": 4.0},  # it runs already, or does not: no reason to wait for long
)
