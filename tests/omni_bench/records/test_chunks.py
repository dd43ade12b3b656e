"""The table of audio reads, exact to the nanosecond."""

from __future__ import annotations

from dataclasses import replace

import pytest
import run_factory as runs

from omni_bench.errors import StoreError
from omni_bench.records.chunks import read_chunks, write_chunks


@pytest.fixture
def path(tmp_path):
    return tmp_path / "chunks.parquet"


def test_chunks_round_trip(path):
    one = runs.timeline("a", chunks=3)
    odd = replace(runs.timeline("b", chunks=2), chunk_bytes=(5, 6), chunk_ends=(False, True))
    write_chunks(path, [one, runs.failed_timeline("f"), odd])
    frame = read_chunks(path)
    assert list(frame.columns) == ["request_id", "index", "arrived_ns", "samples", "bytes", "ends_chunk"]
    for timeline in (one, odd):
        rows = frame[frame.request_id == timeline.request_id]
        assert tuple(rows["index"]) == tuple(range(len(timeline.chunk_bytes)))
        assert tuple(rows.arrived_ns) == timeline.chunk_arrived_ns
        assert tuple(rows.samples) == timeline.chunk_samples
        assert tuple(rows.bytes) == timeline.chunk_bytes
    assert tuple(frame[frame.request_id == "b"].samples) == (2, 3)
    assert list(frame.ends_chunk) == [True, True, True, False, True]
    assert len(frame) == 5


def test_nanoseconds_of_a_long_uptime_are_exact(path):
    late = replace(runs.timeline("a", chunks=1), chunk_arrived_ns=(2**62 + 1,))
    write_chunks(path, [late])
    assert read_chunks(path).arrived_ns.item() == 2**62 + 1


def test_no_chunks_at_all_and_a_broken_file(path):
    write_chunks(path, [])
    assert len(read_chunks(path)) == 0
    path.write_bytes(b"nonsense")
    with pytest.raises(StoreError, match="is not a parquet file"):
        read_chunks(path)
    path.unlink()
    with pytest.raises(StoreError, match="cannot read"):
        read_chunks(path)
