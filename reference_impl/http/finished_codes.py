"""The codes of the last finished requests, for who wants to compare more than audio."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np

MAX_REQUESTS = 512
MAX_FRAMES = 1 << 18  # 8 MiB at 16 codes of two bytes; five hours and three quarters of speech


class FinishedCodes:
    """Codes by the request id that the client was told, the oldest forgotten first. For one thread.

    At most ``max_requests`` are kept, and of them no more than ``max_frames`` frames together.
    """

    def __init__(self, max_requests: int = MAX_REQUESTS, max_frames: int = MAX_FRAMES):
        self._max_requests, self._max_frames = max_requests, max_frames
        self._codes: OrderedDict[str, np.ndarray] = OrderedDict()
        self._frames = 0

    def keep(self, request_id: str, codes: np.ndarray) -> None:
        """Store int [frames, codebooks]; an id that comes again replaces what it had."""
        self._forget(request_id)
        self._codes[request_id] = codes
        self._frames += len(codes)
        while len(self._codes) > self._max_requests or self._frames > self._max_frames:
            self._forget(next(iter(self._codes)))

    def answer(self, request_id: str) -> dict[str, Any] | None:
        """The endpoint's answer, ready for JSON; None for an id that is unknown or forgotten."""
        codes = self._codes.get(request_id)
        if codes is None:
            return None
        frames, codebooks = codes.shape
        return {"request_id": request_id, "frames": frames, "codebooks": codebooks, "codes": codes.tolist()}

    def _forget(self, request_id: str) -> None:
        codes = self._codes.pop(request_id, None)
        if codes is not None:
            self._frames -= len(codes)
