"""The frames as CSV files, one a frame, for spreadsheets and for R."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from omni_bench.export.columns import TEXT
from omni_bench.export.frames import HistoryFrames, RunFrames, named
from omni_bench.foreign_text import inert
from omni_bench.records.files import write_atomically

FORMULA = ("=", "+", "-", "@", "\t")
"""What a spreadsheet takes for the beginning of a formula (OWASP, "CSV Injection")."""


def write_csv(frames: RunFrames | HistoryFrames, folder: Path) -> list[Path]:
    """Write NAME.csv for every frame; their paths. Missing is empty.

    A text that a spreadsheet would run as a formula gets an apostrophe before it, and control characters are escapes:
    texts come from data sets, servers and judges. The frames themselves have them as they are. Raises StoreError.
    """
    paths = []
    for name, frame in named(frames).items():
        path = folder / f"{name}.csv"
        text = _harmless(frame).to_csv(index=False, lineterminator="\n")
        write_atomically(path, lambda temporary, text=text: temporary.write_text(text, encoding="utf-8", newline=""))
        paths.append(path)
    return paths


def _harmless(frame: pd.DataFrame) -> pd.DataFrame:
    texts = {
        name: column.map(inert, na_action="ignore").astype(TEXT)
        for name, column in frame.items()
        if column.dtype == TEXT
    }
    risky = {name: column.str.startswith(FORMULA).fillna(False) for name, column in texts.items()}
    return frame.assign(**{name: texts[name].mask(risky[name], "'" + texts[name]) for name in texts})
