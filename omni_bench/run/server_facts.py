"""What is observed of the server around the load: how it answers before, and what its own counters say after."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from omni_bench.foreign_text import one_field
from omni_bench.metrics.definitions import METRICS
from omni_bench.metrics.request import request_metrics
from omni_bench.records.api_key import ApiKey, key_of
from omni_bench.records.config import RunConfig, TargetConfig
from omni_bench.records.level import level_fields
from omni_bench.records.prompt import Prompt
from omni_bench.records.recording import LevelRecording
from omni_bench.run.probing import SETTLE_S, injected, probe_server
from omni_bench.run.provenance import harness
from omni_bench.targets.base import Target, TargetInfo
from omni_bench.targets.reference import injected_fault
from omni_bench.targets.server_metrics import Scrape, differences, observed, preemptions, scrape


@dataclass
class ServerFacts:
    """What a run learns of its server. Filled in while the run goes on; None where it did not get that far."""

    conformance: dict[str, Any] | None = None
    metrics: dict[str, Any] | None = None
    accounts: list[dict[str, Any]] = field(default_factory=list)
    _scrape: Scrape | None = None
    _last: Scrape | None = None
    _url: str = ""
    _key: ApiKey | None = None

    @property
    def keeps_connections(self) -> bool:
        """Whether a connection may be used again; also where the probe does not know."""
        return (self.conformance or {}).get("keeps_connections") is not False

    def before(
        self,
        config: RunConfig,
        prompts: Mapping[str, Prompt],
        target: Target,
        info: TargetInfo,
        say: Callable[[str], None],
    ) -> None:
        """Probe the server, unless it is not to be, and read its counters. Raises ProtocolError, TargetError.

        ``prompts``: the last one, which is of the warm-up if there is any, lends its voice to the probe.
        """
        said = info.health.get("fault") if isinstance(info.health, dict) else None
        if isinstance(said, str) and said and injected_fault(info.kind, info.health) is None:
            say(f"the server says: fault {one_field(said)}")
        self._key = key_of(config.client)
        if config.target.probe and injected(config.target, info):
            say("probe: left out, as a fault is injected on purpose")
        elif config.target.probe:
            found = probe_server(config, list(prompts.values())[-1], target, info)
            self.conformance = found.as_dict()
            say(found.line())
            for warning in found.warnings:
                say(f"warning: {warning}")
        self._url = info.chaos["upstream"] if info.chaos is not None else info.base_url
        self._scrape = self._last = scrape(self._url, self._key)

    def after_level(self, recording: LevelRecording) -> None:
        """Read the counters after a level, and set its requests' means beside ours. Never raises.

        A server may count a request after the client has its last byte, so that one that has counted too few is
        asked once more.
        """
        if self._last is None or self._last.problem is not None:
            return
        before, self._last = self._last, scrape(self._url, self._key)
        ok = sum(one.ok for one in (*recording.warmup, *recording.timelines))
        found = two_accounts(before, self._last, recording)
        if any(entry["server_count"] < ok for entry in found):
            time.sleep(SETTLE_S)
            self._last = scrape(self._url, self._key)
            found = two_accounts(before, self._last, recording)
        self.accounts += found

    def after(self, say: Callable[[str], None], *, resumed: bool = False) -> None:
        """Read the counters again, once the levels are over, if they could be read before. Never raises.

        ``resumed``: the run had been cut short, so that they miss what another process of the server has counted.
        """
        if self._scrape is None:
            return
        last = self._scrape if self._scrape.problem is not None else scrape(self._url, self._key)
        self.metrics = {**differences(self._scrape, last), "accounts": self.accounts}
        if resumed:
            cut = self.metrics.get("cut")
            self.metrics["cut"] = f"{f'{cut}; ' if cut else ''}they are of what was sent after --resume alone"
        if count := preemptions(self.metrics):
            say(f"warning: the server put requests aside {count:.0f} times (its own count of preemptions)")


def two_accounts(before: Scrape, after: Scrape, recording: LevelRecording) -> list[dict[str, Any]]:
    """The server's mean of each figure that it gives too, and ours, over the requests of a level, warm-up included.

    ``server_count`` and ``client_count`` say how many requests each is of. In our units. What the server does not
    have is left out.
    """
    ok = [request_metrics(one, None) for one in (*recording.warmup, *recording.timelines) if one.ok]
    entries = []
    for metric in METRICS.values():
        for family in metric.server:
            if (found := observed(before, after, family)) is None:
                continue
            values = [one[metric.name] for one in ok if one[metric.name] is not None]
            entries.append(
                {
                    **level_fields(recording.concurrency),
                    "metric": metric.name,
                    "series": family,
                    "server_count": found[0],
                    "server_mean": found[1] * (1e3 if metric.unit == "ms" else 1.0),
                    "client_count": len(values),
                    "client_mean": sum(values) / len(values) if values else None,
                }
            )
    return entries


def target_facts(config: TargetConfig, info: TargetInfo | None, facts: ServerFacts) -> dict[str, Any]:
    """``provenance.target`` of run.json: what is known of the server, as far as it came to that.

    Version and commit are what the server states in its health, else those of its package, else what was configured
    or ``/version`` says.
    """
    version, commit = None, config.revision
    if config.kind == "reference" and config.python is None:
        own = harness()  # the reference server is of this very package
        version, commit = own["version"], own["commit"]
    elif info is not None and config.kind == "reference" and info.environment is not None:
        version = info.environment["packages"].get("omni-bench")
    elif info is not None:
        version, commit = info.version or _stated(info.stated_version, "version"), commit or info.commit
    health = info.health if info is not None else None
    return {
        "kind": config.kind,
        "url": info.base_url if info is not None else config.url,
        "version": _stated(health, "version") or version,
        "commit": _stated(health, "commit") or commit,
        "description": info.as_dict() if info is not None else {},
        "conformance": facts.conformance,
        "server_metrics": facts.metrics,
    }


def _stated(answer: Any, name: str) -> str | None:
    """A text that a server's answer holds under ``name``."""
    value = answer.get(name) if isinstance(answer, dict) else None
    return value if isinstance(value, str) and value else None
