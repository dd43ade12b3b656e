"""The server's own account in a report."""

from __future__ import annotations

import pytest

from omni_bench.report.server import (
    MAX_ROWS,
    account_lines,
    accounts_section,
    server_section,
    server_warning_lines,
    server_warnings,
)

FOUND = {
    "content_type": "audio/pcm",
    "transfer": "chunked",
    "sample_rate_hz": 24000,
    "sample_rate_stated": False,
    "streams": False,
    "seed": None,
    "warnings": ["the server does not stream: <b>x</b>"],
}


def run_with(**target):
    return {"provenance": {"target": {"kind": "external", "description": {}, **target}}}


def test_a_run_that_was_not_probed_says_nothing():
    for run in (run_with(), run_with(conformance=None, server_metrics=None)):
        assert server_warnings(run) == [] and server_warning_lines(run) is None and server_section(run) is None


def test_warnings_come_first_and_cannot_break_out():
    run = run_with(conformance=FOUND)
    assert server_warnings(run) == ["the server does not stream: <b>x</b>"]
    assert server_warning_lines(run) == "> **Note on the server**: the server does not stream: &lt;b&gt;x&lt;/b&gt;."


def test_how_the_server_answers():
    assert server_section(run_with(conformance=FOUND)) == (
        "Found by a probe before anything was timed: content type audio/pcm, framing chunked, "
        "sample rate 24000 Hz (not stated), streams no, seed n/a."
    )


@pytest.mark.parametrize(
    ("entry", "row"),
    [
        ({"increase": 3.0}, ["3", "", "", ""]),
        ({"increase": None}, ["n/a", "", "", ""]),
        ({"count": 4.0, "sum": 1.0, "mean": 0.25}, ["4", "0.250", "", ""]),
        ({"before": None, "after": 0.5}, ["", "", "n/a", "0.500"]),
    ],
)
def test_what_moved_in_its_metrics(entry, row):
    name = 'vllm:x{a="|`"}'
    metrics = {"problem": None, "series": {name: entry}, "left_out": 0}
    text = server_section(run_with(server_metrics=metrics))
    cells = [cell.strip() for cell in text.splitlines()[-1].strip("|").split("|")]
    assert cells == ['`` vllm:x{a="¦`"} ``', *row]


def test_a_long_table_is_cut_and_says_so():
    series = {f"s{number}": {"increase": 1.0} for number in range(MAX_ROWS + 3)}
    text = server_section(run_with(server_metrics={"problem": None, "series": series, "left_out": 2}))
    assert "5 more are in run.json or were not kept." in text and f"`s{MAX_ROWS}`" not in text


def test_metrics_that_could_not_be_read():
    metrics = {"problem": "HTTP 404", "series": {}, "left_out": 0}
    assert server_section(run_with(server_metrics=metrics)) == "Its /metrics: n/a (HTTP 404)."
    assert server_section(run_with(server_metrics={"problem": None, "series": {}, "left_out": 0})) is None


def test_metrics_that_are_not_whole():
    cut = {"problem": None, "series": {}, "left_out": 0, "cut": "the answer after the levels was cut"}
    sentence = "Its /metrics are not whole: the answer after the levels was cut."
    assert server_section(run_with(server_metrics=cut)) == sentence
    assert server_section(run_with(server_metrics=cut | {"series": {"s": {"increase": 1.0}}})).endswith(sentence)


def test_metrics_of_another_form_are_left_out_and_names_stay_in_their_row():
    series = {"a\n\n<script>": {"increase": "3", "mean": [1]}, "b": [1], "c": 7}
    text = server_section(run_with(server_metrics={"problem": None, "series": series}))
    assert [cell.strip() for cell in text.splitlines()[-1].strip("|").split("|")] == [
        "`a <script>`",
        "n/a",
        "n/a",
        "",
        "",
    ]
    assert server_section(run_with(server_metrics={"problem": None, "series": [1]})) is None


def account(**changes):
    """Of vLLM-Omni at c = 4: 100 ms by its own account, 110 by ours."""
    counts = {"server_count": 8, "client_count": 8}
    means = {"server_mean": 100.0, "client_mean": 110.0}
    of = {"concurrency": 4, "metric": "ttfp_ms", "series": "vllm_omni:audio_ttfp_s"}
    return {**of, **counts, **means, **changes}


def run_of(*accounts, lag_p99_ms=4.9):
    client = None if lag_p99_ms is None else {"lag_p99_ms": lag_p99_ms}
    return {**run_with(server_metrics={"accounts": list(accounts)}), "levels": [{"concurrency": 4, "client": client}]}


def test_the_two_accounts_stand_side_by_side():
    rtf = account(metric="rtf", series="vllm_omni:audio_rtf", server_mean=0.5, client_mean=None, client_count=0)
    lines = accounts_section(run_of(account(), rtf)).splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    assert cells[0] == ["c", "figure", "the server's", "server", "ours", "ours − server's"]
    assert cells[2] == ["4", "TTFP (ms)", "`vllm_omni:audio_ttfp_s`", "100 (8)", "110 (8)", "+10.0"]
    assert cells[3] == ["4", "RTF", "`vllm_omni:audio_rtf`", "0.500 (8)", "n/a (0)", "n/a"]
    assert "**c = 4: TTFP is 110 ms here and 100 ms by the server's account: +10.0 ms, more than" in "".join(lines)
    assert accounts_section(run_of()) is None and accounts_section(run_with(server_metrics=None)) is None


@pytest.mark.parametrize(
    ("changes", "lag_p99_ms", "told"),
    [
        ({}, 4.9, True),
        ({}, 5.0, False),  # late to send, and late to see the first byte
        ({"client_mean": 90.0}, 4.9, True),
        ({"server_count": 9}, 4.9, False),  # not the same requests
        ({"metric": "e2el_ms"}, 4.9, False),
        ({"client_mean": None}, 4.9, False),
        ({"concurrency": 8}, 4.9, False),
        ({}, None, False),
    ],
)
def test_a_ttfp_that_differs_by_more_than_the_lag_explains(changes, lag_p99_ms, told):
    assert bool(list(account_lines(run_of(account(**changes), lag_p99_ms=lag_p99_ms)))) is told


def test_one_standstill_of_the_machine_is_in_a_mean_and_in_no_percentile():
    run = run_of(account(client_mean=102.5), lag_p99_ms=1.2)
    assert list(account_lines(run))
    stood_still = {"lag_max_ms": 1274.0, "lag_samples": 86_735}  # 1.3 of 434 s
    run["levels"][0]["client"].update(stood_still)
    assert not list(account_lines(run))
    run["levels"][0]["client"]["lag_max_ms"] = 20.0
    assert list(account_lines(run))


def test_a_figure_that_only_another_version_knows_is_passed_over():
    assert accounts_section(run_of(account(metric="of_tomorrow"))) is None
