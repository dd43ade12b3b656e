"""The signal checks of a level that just ended, and their evidence as lines of requests.jsonl."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from omni_bench.accuracy.signal.audio_faults import in_order
from omni_bench.accuracy.signal.checks import level_findings
from omni_bench.records.config import RunConfig
from omni_bench.records.files import os_errors_as_store_errors

if TYPE_CHECKING:
    from omni_bench.run.level_result import RequestResult


def speaks(config: RunConfig) -> bool:
    """Whether the signal checks apply: asked for, and the server is not our own with random weights (it hisses)."""
    is_random = config.target.kind == "reference" and config.reference.checkpoint == "random"
    return config.checks.signal and not is_random


def with_signal_faults(requests: tuple[RequestResult, ...]) -> tuple[RequestResult, ...]:
    """The requests of a level, with what :mod:`omni_bench.accuracy.signal.checks` finds. Raises StoreError."""
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
