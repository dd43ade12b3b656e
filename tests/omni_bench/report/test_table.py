"""Tables: their shape, their units, and that a cell stays in its cell."""

from __future__ import annotations

import re

import pytest

from omni_bench.report import table


def cells(line: str) -> list[str]:
    """The cells of a row of a markdown table, by its unescaped pipes."""
    assert line.startswith("|") and line.endswith("|"), line
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def parse(text: str) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a markdown table; fails unless every line has as many cells as the header."""
    header, rule, *rows = text.splitlines()
    names = cells(header)
    assert all(re.fullmatch(r":?-+:?", cell) for cell in cells(rule)) and len(cells(rule)) == len(names)
    parsed = [cells(row) for row in rows]
    assert all(len(row) == len(names) for row in parsed)
    return names, parsed


def test_level_table_has_a_row_a_level_and_a_cell_a_column(runs):
    run = runs.make_run((1, 4, 16))
    names, rows = parse(table.level_table(run))
    assert names == list(table.LEVEL_HEADERS)
    assert [row[0] for row in rows] == ["1", "4", "16"]
    first = dict(zip(names, rows[0], strict=True))
    level = run["levels"][0]
    assert first["ok"] == "12/12" and first["valid"] == "yes" and first["stalls"] == "0"
    p50, p90 = (level["metrics"]["ttfp_ms"][name] for name in ("p50", "p90"))
    assert first["TTFP p50 / p90 (ms)"] == f"{p50:.1f} / {p90:.1f}"
    assert first["WER"] == f"{100 * level['accuracy']['wer']:.2f} %"


def test_requests_with_invalid_audio_are_not_ok(runs):
    level = runs.make_level(1)
    level.update(faulty=3, invalid={"silent": 2, "clipped": 2})
    assert table.level_rows({"levels": [level]})[0][1] == "9/12"
    del level["faulty"]  # schema 1.0: one request may have had two faults
    assert table.level_rows({"levels": [level]})[0][1] == "n/a/12"
    level["invalid"] = {}
    assert table.level_rows({"levels": [level]})[0][1] == "12/12"


def test_missing_figures_are_na(runs):
    level = runs.make_level(1, judge=False)
    for summary in level["metrics"].values():
        summary.update(n=0, mean=None, std=None, p50=None, p90=None)
    level.update(stalls=None, valid=False)
    names, rows = parse(table.level_table(runs.make_run(levels=[level])))
    row = dict(zip(names, rows[0], strict=True))
    assert row["valid"] == "**no**"
    missing = [name for name, cell in row.items() if cell == "n/a"]
    assert missing == [name for name in names if name not in ("c", "ok", "valid")]


@pytest.mark.parametrize("name", ["percentile_table", "fit_table", "lag_table", "accuracy_table"])
def test_other_tables_parse_with_and_without_values(runs, name):
    bare = {**runs.make_level(2, judge=False), "client": None, "metrics": {}}
    full, empty = runs.make_run((1, 4)), runs.make_run(levels=[bare])
    draw = getattr(table, name)
    _, rows = parse(draw(full))
    assert {row[0] for row in rows} == {"1", "4"}
    _, rows = parse(draw(empty))
    assert all(cell in ("2", "n/a") for row in rows for cell in row)


def test_percentile_table_shows_p95_as_na_without_support(runs):
    names, rows = parse(table.percentile_table(runs.make_run((1,))))
    by_metric = {row[1]: dict(zip(names, row, strict=True)) for row in rows}
    assert by_metric["`ttfp_ms`"]["p95"] == by_metric["`ttfp_ms`"]["p99"] == "n/a"
    assert by_metric["`ttfp_ms`"]["n"] == "12" and by_metric["`ttfp_ms`"]["unit"] == "ms"


def test_table_without_rows_is_still_a_table():
    assert parse(table.markdown_table(("a", "b"), [])) == (["a", "b"], [])


def test_numbers_stay_as_written():
    _, rows = parse(table.markdown_table(("a", "b"), [["1.50", "0010"]]))
    assert rows == [["1.50", "0010"]]
