"""chunks.parquet: one row an audio read, of all requests of a run.

When it arrived, how much it held, and whether it ended an HTTP chunk.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omni_bench.errors import StoreError
from omni_bench.records.files import os_errors_as_store_errors, write_atomically
from omni_bench.records.timeline import Timeline

if TYPE_CHECKING:
    import pandas as pd

# column: type, by pyarrow's name for it
COLUMNS = {
    "request_id": "string",
    "index": "int32",
    "arrived_ns": "int64",
    "samples": "int32",
    "bytes": "int32",
    "ends_chunk": "bool_",
}


def write_chunks(path: Path, timelines: Iterable[Timeline]) -> None:
    """Write the audio reads of ``timelines``, in order. Raises StoreError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for timeline in timelines:
        columns["request_id"] += [timeline.request_id] * len(timeline.chunk_bytes)
        columns["index"] += range(len(timeline.chunk_bytes))
        columns["arrived_ns"] += timeline.chunk_arrived_ns
        columns["samples"] += timeline.chunk_samples
        columns["bytes"] += timeline.chunk_bytes
        columns["ends_chunk"] += timeline.chunk_ends or [True] * len(timeline.chunk_bytes)
    table = pa.table(columns, schema=pa.schema([(name, getattr(pa, kind)()) for name, kind in COLUMNS.items()]))
    write_atomically(path, lambda temporary: pq.write_table(table, temporary))


def read_chunks(path: Path) -> pd.DataFrame:
    """The file as a data frame. Raises StoreError if it is not there or no parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with os_errors_as_store_errors("read", path):
            return pq.read_table(path).to_pandas()
    except pa.ArrowException as error:
        raise StoreError(f"{path} is not a parquet file: {error}") from error
