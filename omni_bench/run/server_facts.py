"""What is observed of the server around the load: how it answers before, and what its own counters say after."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from omni_bench.records.config import RunConfig, TargetConfig
from omni_bench.records.prompt import Prompt
from omni_bench.run.probing import injected, probe_server
from omni_bench.run.provenance import harness
from omni_bench.targets.base import Target, TargetInfo
from omni_bench.targets.server_metrics import Scrape, differences, preemptions, scrape


@dataclass
class ServerFacts:
    """What a run learns of its server. Filled in while the run goes on; None where it did not get that far."""

    conformance: dict[str, Any] | None = None
    metrics: dict[str, Any] | None = None
    _scrape: Scrape | None = None
    _url: str = ""

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
        if config.target.probe and injected(config.target, info):
            say("probe: left out, as a fault is injected on purpose")
        elif config.target.probe:
            found = probe_server(config, list(prompts.values())[-1], target, info)
            self.conformance = found.as_dict()
            say(found.line())
            for warning in found.warnings:
                say(f"warning: {warning}")
        self._url = info.chaos["upstream"] if info.chaos is not None else info.base_url
        self._scrape = scrape(self._url)

    def after(self, say: Callable[[str], None]) -> None:
        """Read the counters again, once the levels are over. Never raises."""
        if self._scrape is None:
            return
        self.metrics = differences(self._scrape, scrape(self._url))
        if count := preemptions(self.metrics):
            say(f"warning: the server put requests aside {count:.0f} times (its own count of preemptions)")


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
