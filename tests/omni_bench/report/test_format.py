"""Numbers and texts for people."""

from __future__ import annotations

import math

import pytest
import run_factory as runs
from hypothesis import given
from hypothesis import strategies as st

from omni_bench import foreign_text
from omni_bench.report import format as fmt
from omni_bench.report.format import NA
from omni_bench.report.server import server_warnings


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1e-12, "< 0.000000001"),
        (-1e-12, "> -0.000000001"),
        (1234.5, "1234"),
        (12.345, "12.3"),
        (0.12345, "0.123"),
        (0, "0"),
        (-0.5, "-0.500"),
        (None, NA),
        (math.nan, NA),
    ],
)
def test_number(value, shown):
    assert fmt.number(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0213, "0.021"),
        (-0.04, "-0.040"),
        (0.05, "0.1"),
        (8.04, "8.0"),
        (99.94, "99.9"),
        (99.96, "100"),
        (1234.5, "1234"),
        (0.0, "0.0"),
        (None, NA),
    ],
)
def test_milliseconds(value, shown):
    assert fmt.milliseconds(value) == shown


def test_percent_is_of_a_fraction_and_missing_is_not_zero():
    assert [fmt.percent(value) for value in (0.0123, 0.0, 1.5, None)] == ["1.23 %", "0.00 %", "150.00 %", NA]
    assert [fmt.count(value) for value in (0, 3, None)] == ["0", "3", NA]
    assert fmt.pair("1", NA) == "1 / n/a" and fmt.pair(NA, NA) == NA


def test_what_is_not_zero_is_not_shown_as_zero():
    assert [fmt.number(value) for value in (1e-12, -1e-12)] == ["< 0.000000001", "> -0.000000001"]
    assert [fmt.milliseconds(value) for value in (0.0213, -0.04, 0.05)] == ["0.021", "-0.040", "0.1"]


@pytest.mark.parametrize(
    ("fraction", "shown"),
    [(0.00004, "< 0.01 %"), (0.99999, "> 99.99 %"), (1.0, "100.00 %"), (0.0001, "0.01 %"), (0.0, "0.00 %")],
)
def test_rounding_claims_neither_none_nor_all(fraction, shown):
    assert fmt.percent(fraction) == shown


@pytest.mark.parametrize(
    ("fraction", "shown"),
    [
        (0.081, "+8.1 %"),
        (-0.2, "-20.0 %"),
        (0.0004, "+0.04 %"),
        (-0.00004, "-0.004 %"),
        (-1e-9, "+0.0 %"),
        (-0.0, "+0.0 %"),
        (None, NA),
        (math.inf, NA),
    ],
)
def test_a_change_keeps_its_sign_and_is_not_rounded_to_nothing(fraction, shown):
    assert fmt.signed_percent(fraction) == shown


@given(st.floats(-1e300, 1e300) | st.sampled_from([math.nan, math.inf, -math.inf, None]))
def test_any_number_is_text_or_na(value):
    for show in (fmt.number, fmt.milliseconds, fmt.percent, fmt.signed_percent, lambda x: fmt.fixed(x, 3)):
        text = show(value)
        assert (text == NA) == (value is None or not math.isfinite(value))
        assert "e" not in text and "inf" not in text and "\n" not in text


@given(st.text(max_size=60))
def test_escaped_text_is_one_line_and_cannot_start_a_cell_or_a_tag(text):
    escaped = foreign_text.escape_markdown(text)
    assert "\n" not in escaped and "<" not in escaped
    assert escaped.count("|") == escaped.count("\\|")


def test_escape_examples():
    assert foreign_text.escape_markdown("a|b\n<script>*x*_y_`z`") == r"a\|b &lt;script&gt;\*x\*\_y\_\`z\`"
    assert foreign_text.escape_markdown(r"trailing \|") == r"trailing \\\|"


def test_code_block_cannot_be_ended_by_its_text():
    block = foreign_text.code_block("a ``` b", "sh").splitlines()
    assert block[0] == "````sh" and block[-1] == "````"


def test_hardware_name():
    def name(kind, description, gpus=(), cpu="Fast CPU 9000"):
        provenance = runs.make_provenance(kind=kind, health=description)
        provenance["hardware"].update(gpus=[{"name": gpu} for gpu in gpus], cpu=cpu)
        return fmt.hardware_name({"provenance": provenance})

    assert name("external", {"device_name": "NVIDIA H100"}, ["NVIDIA T4"]) == "NVIDIA H100"
    assert name("external", None, ["NVIDIA T4"]) == name("external", ["x"]) == "unknown hardware"
    assert name("external", {}, ["NVIDIA T4"]) == "unknown hardware"
    assert name("external", {"device_name": "cpu"}) == "CPU (model unknown)"
    assert name("reference", {"device": "cpu", "device_name": "cpu"}, ["NVIDIA T4"]) == "Fast CPU 9000, 2 cores"
    assert name("reference", {}, ["NVIDIA T4"]) == "NVIDIA T4"
    assert name("reference", {"device": "cpu"}, [], cpu=None) == "CPU (model unknown), 2 cores"


def test_target_name():
    def name(description, config):
        provenance = runs.make_provenance(health=description)
        provenance["config"] = config
        return fmt.target_name({"provenance": provenance})

    assert name({"model": "tiny"}, {}) == "reference (tiny)"
    assert name({}, {"client": {"model": "big"}}) == "reference (big)"
    assert name({"model": 3}, {"client": None}) == "reference"


def test_injected_faults_are_named_wherever_they_were_switched_on():
    clean = runs.make_run((1,))
    assert fmt.injected_faults(clean) == []
    faulty = runs.make_run((1,), provenance=runs.make_provenance(health={**runs.CPU_HEALTH, "fault": "graph_rng"}))
    faulty["provenance"]["target"]["description"]["chaos"] = {"name": "cut"}
    assert fmt.injected_faults(faulty) == ["reference.fault=graph_rng", "target.chaos=cut"]
    said = {"fault": "graph_rng\n# H1"}
    stranger = runs.make_run((1,), provenance=runs.make_provenance(kind="external", health=said))
    assert fmt.injected_faults(stranger) == [] and server_warnings(stranger) == [
        "the server says: fault graph_rng # H1"
    ]
    assert fmt.stated_fault(faulty) is None and fmt.stated_fault(clean) is None


@pytest.mark.parametrize(("value", "shown"), [(0.034, "0.034"), (1e-4, "0.00010"), (3e-15, "< 0.0001"), (None, NA)])
def test_probability(value, shown):
    assert fmt.probability(value) == shown
