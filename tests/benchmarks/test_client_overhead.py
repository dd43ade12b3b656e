"""Streams that a client holds, and the paced server behind that figure, in both wire forms."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks.client_overhead import (
    OURS_RAW,
    RAW,
    SSE,
    VLLM,
    Found,
    OverheadServer,
    Running,
    held_streams,
    ours,
    page,
)
from omni_bench.targets.null_server import Pace


@pytest.mark.parametrize(
    ("p99_ms", "held"),
    [
        ([(8, 0.5), (16, 5.0), (32, 5.1), (64, 1.0)], 16),  # what is above a level that failed is chance
        ([(8, 6.0), (16, 1.0)], 0),
        ([(8, 0.5), (16, None)], 8),
        ([], 0),
    ],
)
def test_held_is_within_the_bound_there_and_below(p99_ms, held):
    assert held_streams([Found(streams, value, value) for streams, value in p99_ms], 5.0) == held


@pytest.mark.parametrize(
    ("mine", "theirs", "said"),
    [
        ([1, 1, 1, 9], [1, 9], "2.5"),
        ([1, 1, 1, 1], [1, 9], "10 times, or more, and 5 were asked for: met"),
        ([1, 1, 9, 9], [1, 9], "2 times, and 5 were asked for: missed"),
        ([1, 1, 9, 9], [9, 9], "fewer than 8, the lowest level: not shown"),
        ([1, 1, 1, 1], [9, 9], "fewer than 8, the lowest level: met"),
        ([1, 1, 1, 1], [None], "n/a"),
        ([1, 1, 1, 1], [1, 1, 1, 1], "not shown"),
    ],
)
def test_the_ratio_claims_no_more_than_was_measured(mine, theirs, said):
    levels = (8, 16, 20, 80)
    found = {
        name: [Found(streams, value, value) for streams, value in zip(levels, values, strict=False)]
        for name, values in ((OURS_RAW, mine), (VLLM, theirs))
    }
    assert said in page(found, levels, 5.0).splitlines()[-1]


async def test_what_the_server_took_is_not_the_clients(tmp_path):
    """Of an answer after 60 ms, hardly anything is the client's, in either form."""
    server = OverheadServer(Pace(first_ms=60, interval_ms=5, chunk_ms=20, chunks=2))
    async with server.serving() as port:
        running = Running(f"http://127.0.0.1:{port}")
        for kind in (RAW, SSE):
            bias_ms = await asyncio.to_thread(ours(kind), running, 2)
            assert len(bias_ms) == 24 and (bias_ms > 0).all() and min(bias_ms) < 50
    assert server.sent_ns == {}
