"""Tables: their shape, their units, and that a cell stays in its cell."""

from __future__ import annotations

import re

import pytest
import run_factory as runs
from level_cells import level_headers, level_rows

from omni_bench.report import table

SPEECH = (
    *("c", "ok", "TTFP p50 / p90 (ms)", "RTF p50 / p90 (mean)", "E2EL p50 / p90 (ms)", "ICL p50 / p90 (ms)"),
    *("stalls", "audio/s", "req/s", "WER", "CER", "valid"),
)


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


def test_level_table_has_a_row_a_level_and_a_cell_a_column():
    run = runs.make_run((1, 4, 16))
    names, rows = parse(table.level_table(run))
    assert names == list(SPEECH)
    assert [row[0] for row in rows] == ["1", "4", "16"]
    first = dict(zip(names, rows[0], strict=True))
    level = run["levels"][0]
    assert first["ok"] == "12/12" and first["valid"] == "yes" and first["stalls"] == "0"
    p50, p90 = (level["metrics"]["ttfp_ms"][name] for name in ("p50", "p90"))
    assert first["TTFP p50 / p90 (ms)"] == f"{p50:.1f} / {p90:.1f}"
    assert first["WER"] == f"{100 * level['accuracy']['wer']:.2f} %"


@pytest.mark.parametrize("locale", ["zh", "zh-CN", "Chinese"])
def test_chinese_is_told_by_characters(locale):
    """There are no words to count: one rate, and it is called what it is."""
    run = runs.make_run((1, 4))
    run["provenance"]["prompts"]["locale"] = locale
    names, rows = parse(table.level_table(run))
    assert names == [name for name in SPEECH if name != "WER"]
    accuracy = run["levels"][0]["accuracy"]
    assert dict(zip(names, rows[0], strict=True))["CER"] == f"{100 * accuracy['cer']:.2f} %"
    names, rows = parse(table.accuracy_table(run))
    assert names == [
        "c",
        "utterances",
        "characters",
        "edits",
        "CER",
        "CER mean",
        "CER median",
        "above 50 %",
        "forced",
        "not compared",
    ]
    first = dict(zip(names, rows[0], strict=True))
    assert first["CER mean"] == f"{100 * accuracy['wer_mean']:.2f} %" and first["characters"] == str(accuracy["words"])


def test_a_language_that_nobody_judged_is_not_asked_for():
    run = runs.make_run(levels=[runs.make_level(1, judge=False)])
    run["provenance"]["prompts"]["locale"] = "klingon"
    assert level_headers(run) == SPEECH


def chat(modalities):
    """A run of chats: the level of speech with figures of a text beside it."""
    level = runs.make_level(2)
    for name in ("ttft_ms", "tpot_ms", "itl_ms"):
        level["metrics"][name].update(n=12, mean=21.0, p50=20.0, p90=30.0)
    level["metrics"]["tokens_per_s"].update(n=12, mean=123.4)
    run = runs.make_run(levels=[level])
    run["provenance"]["config"]["client"] = {"kind": "openai_chat_audio", "modalities": modalities}
    return run


def test_a_chat_has_columns_for_its_text():
    names, rows = parse(table.level_table(chat(["text", "audio"])))
    assert set(SPEECH) < set(names)
    row = dict(zip(names, rows[0], strict=True))
    assert row["TTFT p50 / p90 (ms)"] == row["TPOT p50 / p90 (ms)"] == "20.0 / 30.0"
    assert "itl_ms" in table.percentile_table(chat(["text", "audio"]))
    assert row["tokens/s"] == "123.40" and row["TTFP p50 / p90 (ms)"] != "n/a"


def test_a_text_alone_has_no_columns_of_audio():
    names, _ = parse(table.level_table(chat(["text"])))
    assert names == [
        *("c", "ok", "TTFT p50 / p90 (ms)", "TPOT p50 / p90 (ms)", "ITL p50 / p90 (ms)", "E2EL p50 / p90 (ms)"),
        *("tokens/s", "req/s", "valid"),
    ]


def test_requests_with_invalid_audio_are_not_ok():
    level = runs.make_level(1)
    level.update(faulty=3, invalid={"silent": 2, "clipped": 2})
    assert level_rows({"levels": [level]})[0][1] == "9/12"
    del level["faulty"]  # schema 1.0: one request may have had two faults
    assert level_rows({"levels": [level]})[0][1] == "n/a/12"
    level["invalid"] = {}
    assert level_rows({"levels": [level]})[0][1] == "12/12"


def test_missing_figures_are_na():
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
def test_other_tables_parse_with_and_without_values(name):
    bare = {**runs.make_level(2, judge=False), "client": None, "metrics": {}}
    full, empty = runs.make_run((1, 4)), runs.make_run(levels=[bare])
    draw = getattr(table, name)
    _, rows = parse(draw(full))
    assert {row[0] for row in rows} == {"1", "4"}
    _, rows = parse(draw(empty))
    assert all(cell in ("2", "n/a") for row in rows for cell in row)


def test_a_client_that_stood_still_is_told_though_no_percentile_shows_it():
    run = runs.make_run((1, 4))
    run["levels"][0]["client"]["lag_max_ms"] = 1274.0
    run["levels"][1]["client"]["lag_max_ms"] = 99.0
    (line,) = table.standstill_lines(run)
    assert line.startswith("c = 1: the client stood still for 1274 ms at a time")
    run["levels"][0]["client"] = None
    assert not list(table.standstill_lines(run))


def test_percentile_table_shows_p95_as_na_without_support():
    names, rows = parse(table.percentile_table(runs.make_run((1,))))
    by_metric = {row[1]: dict(zip(names, row, strict=True)) for row in rows}
    assert by_metric["`ttfp_ms`"]["p95"] == by_metric["`ttfp_ms`"]["p99"] == "n/a"
    assert by_metric["`ttfp_ms`"]["n"] == "12" and by_metric["`ttfp_ms`"]["unit"] == "ms"


def test_table_without_rows_is_still_a_table():
    assert parse(table.markdown_table(("a", "b"), [])) == (["a", "b"], [])


def test_numbers_stay_as_written():
    _, rows = parse(table.markdown_table(("a", "b"), [["1.50", "0010"]]))
    assert rows == [["1.50", "0010"]]


def test_a_slow_rate_is_not_none():
    run = runs.make_run((1,))
    run["levels"][0]["metrics"]["requests_per_s"]["mean"] = 0.0042
    names, rows = parse(table.level_table(run))
    assert dict(zip(names, rows[0], strict=True))["req/s"] == "0.0042"


def test_rates_stand_under_their_name_in_every_table():
    run = runs.make_run((1,))
    run["levels"][0] |= {"rate_hz": 2.5}
    made = (table.level_table, table.accuracy_table, table.fit_table, table.lag_table, table.percentile_table)
    for make in made:
        names, rows = parse(make(run))
        assert names[0] == "rate" and rows[0][0] == "2.5 req/s"
