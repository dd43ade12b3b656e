"""The signal checks of a level that just ended, and their evidence as lines of requests.jsonl."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from omni_bench.config.schema import RunConfig
from omni_bench.metrics.sanity import level_findings
from omni_bench.metrics.shared_audio import SharedAudio
from omni_bench.metrics.validity import in_order
from omni_bench.store.files import os_errors_as_store_errors

if TYPE_CHECKING:
    from omni_bench.run.results import RequestResult

_TIMES = ("at_s", "source_at_s", "duration_s")
SHARED_FORM = "a list of {source, at_s, source_at_s, duration_s}"


def speaks(config: RunConfig) -> bool:
    """Whether the signal checks apply: asked for, and the server is not our own with random weights (it hisses)."""
    is_random = config.target.kind == "reference" and config.reference.checkpoint == "random"
    return config.checks.signal and not is_random


def with_signal_faults(requests: tuple[RequestResult, ...]) -> tuple[RequestResult, ...]:
    """The requests of a level, with what :mod:`omni_bench.metrics.sanity` finds. Raises StoreError."""
    audio = {
        request.request_id: request.audio
        for request in requests
        if request.timeline.ok and request.timeline.sample_rate_hz is not None and request.audio is not None
    }

    def load(request_id: str) -> np.ndarray:
        path = audio[request_id]
        with os_errors_as_store_errors("read", path):
            pcm = path.read_bytes()
        return np.frombuffer(pcm, "<i2", count=len(pcm) // 2)

    checked = [request for request in requests if request.request_id in audio]
    found = level_findings([request.timeline for request in checked], [request.text for request in checked], load)
    return tuple(
        replace(
            request,
            faults=in_order((*request.faults, *found[request.request_id].faults)),
            shared=found[request.request_id].shared,
        )
        if request.request_id in found
        else request
        for request in requests
    )


def shared_records(request: RequestResult) -> list[dict[str, Any]]:
    """``shared_audio`` of a line of requests.jsonl: [{source, at_s, source_at_s, duration_s}], [] for none."""
    return [{name: value for name, value in asdict(one).items() if name != "victim"} for one in request.shared]


def shared_from(record: Mapping[str, Any]) -> tuple[SharedAudio, ...]:
    """The inverse of :func:`shared_records`; empty for lines of older versions, which have no such field."""
    return tuple(SharedAudio(victim=record["request_id"], **one) for one in record.get("shared_audio", ()))


def is_shared_form(value: object) -> bool:
    """Whether a stored ``shared_audio`` has the form :data:`SHARED_FORM`."""
    return isinstance(value, list) and all(
        isinstance(one, dict)
        and one.keys() == {"source", *_TIMES}
        and isinstance(one["source"], str)
        and all(isinstance(one[name], (int, float)) and not isinstance(one[name], bool) for name in _TIMES)
        for one in value
    )
