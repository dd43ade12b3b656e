"""Codec codes of an answer, from servers that hand them out, and the first place where two differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import numpy as np

from omni_bench.errors import ProtocolError, shorten
from omni_bench.load.clients.urls import speech_url
from omni_bench.targets.probe import ProbeAnswer, get

MAX_FRAMES, MAX_CODEBOOKS = 1 << 16, 64
FETCH_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class FetchedCodes:
    """``codes``: request id -> int32 [frames, codebooks]. ``problem``: why the rest was not had, None if all was."""

    codes: dict[str, np.ndarray] = field(default_factory=dict)
    problem: str | None = None


def fetch_codes(
    base_url: str, request_ids: Sequence[str], *, get: Callable[[str, float], ProbeAnswer] = get
) -> FetchedCodes:
    """Ask the server at ``base_url`` what it spoke: GET .../v1/audio/speech/ID/codes, one after another.

    A server may have no such endpoint, or keep the codes of its last requests only. The latest
    are therefore asked for first, and the first refusal ends it: at most one request in vain.
    Bounded by :data:`FETCH_TIMEOUT_S` a request and the 1 MiB of a probe's answer.
    """
    codes: dict[str, np.ndarray] = {}
    for request_id in reversed(request_ids):
        answer = get(f"{speech_url(base_url)}/{quote(request_id, safe='')}/codes", FETCH_TIMEOUT_S)
        if answer.status != 200:
            return FetchedCodes(codes, f"no codes of {request_id}: {answer.problem or f'HTTP {answer.status}'}")
        try:
            codes[request_id] = parse_codes(answer.json(), request_id)
        except ProtocolError as error:
            return FetchedCodes(codes, str(error))
    return FetchedCodes(codes)


def parse_codes(value: Any, request_id: str) -> np.ndarray:
    """The answer of the codes endpoint (decoded JSON) as int32 [frames, codebooks].

    Raises ProtocolError for anything but ``{"frames", "codebooks", "codes": [[int, ...], ...]}`` whose
    numbers agree, and for the codes of another request.
    """
    where = f"codes of request {request_id!r}"
    if not isinstance(value, Mapping):
        raise ProtocolError(f"{where}: not a JSON object of at most 1 MiB but {type(value).__name__}")
    if value.get("request_id", request_id) != request_id:
        raise ProtocolError(f"{where}: the server sent those of {shorten(repr(value['request_id']), 80)}")
    frames, codebooks, rows = value.get("frames"), value.get("codebooks"), value.get("codes")
    for name, number, limit in (("frames", frames, MAX_FRAMES), ("codebooks", codebooks, MAX_CODEBOOKS)):
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= limit:
            raise ProtocolError(f"{where}: {name} is {shorten(repr(number), 80)}; must be 0 to {limit}")
    if not isinstance(rows, list) or len(rows) != frames:
        raise ProtocolError(f"{where}: codes is not a list of frames={frames} rows")
    for index, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != codebooks:
            raise ProtocolError(f"{where}: frame {index} is not a list of codebooks={codebooks} numbers")
        if not all(isinstance(code, int) and not isinstance(code, bool) and 0 <= code < 2**31 for code in row):
            raise ProtocolError(f"{where}: frame {index} holds something else than numbers of 0 to 2^31 - 1")
    return np.array(rows, dtype=np.int32).reshape(frames, codebooks)


def codes_record(request_id: str, codes: np.ndarray) -> dict[str, Any]:
    """A line of codes.jsonl, in the form of the endpoint; :func:`parse_codes` reads it."""
    frames, codebooks = codes.shape
    return {"request_id": request_id, "frames": frames, "codebooks": codebooks, "codes": codes.tolist()}


@dataclass(frozen=True)
class CodePlace:
    """A place in codes. ``codebook`` is None where one answer has no such frame any more."""

    frame: int
    codebook: int | None


def first_code_difference(one: np.ndarray, other: np.ndarray) -> CodePlace | None:
    """Where two answers part: the first frame, and the first codebook in it; None if they are equal.

    Both int [frames, codebooks]. If one is the beginning of the other, they part at its end. Answers with
    different numbers of codebooks part at frame 0, at the first codebook that only one has.
    """
    codebooks = min(one.shape[1], other.shape[1])
    if one.shape[1] != other.shape[1] and (len(one) or len(other)):
        return CodePlace(0, codebooks)
    frames = min(len(one), len(other))
    places = np.argwhere(one[:frames] != other[:frames])  # in the order of the frames
    if len(places):
        return CodePlace(int(places[0][0]), int(places[0][1]))
    return None if len(one) == len(other) else CodePlace(frames, None)
