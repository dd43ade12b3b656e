"""The catalogue is whole, and names detectors that exist."""

from __future__ import annotations

import subprocess
import sys

from omni_bench.accuracy.signal.audio_faults import INVALID_REASONS
from omni_bench.load.clients.wire_forms import FORMS
from omni_bench.records.invalid_reason import AUDIO_CODES
from omni_bench.records.timeline import ERROR_KINDS
from omni_bench.targets.chaos_proxy.catalogue import WIRE_FAULTS, faults_of

# Checks of the speech itself, for faults that leave the wire in order.
OF_THE_SPEECH = {"wer", "cross_talk", "parity", "length", *AUDIO_CODES}


def test_every_fault_of_the_issue_is_there():
    assert set(WIRE_FAULTS) == {
        "crash_at_c3",
        "http_500",
        "in_band_error",
        "stall",
        "cut",
        "drop_chunk",
        "duplicate_chunk",
        "swap_streams",
        "header_first",
        "odd_bytes",
        "silence_on_200",
        "too_fast",
        "cut_tail",
        "lost_samples",
        "other_voice",
        "silence_first",
        "slow_drip",
    }
    assert all(name == fault.name for name, fault in WIRE_FAULTS.items())


def test_detectors_are_ones_that_exist():
    for fault in WIRE_FAULTS.values():
        assert fault.detectors
        assert set(fault.detectors) <= {*ERROR_KINDS, *INVALID_REASONS, *OF_THE_SPEECH}, fault.name
        assert fault.what and fault.source and fault.min_concurrency >= 1


def test_who_is_hit():
    all_of_them, every_second = WIRE_FAULTS["slow_drip"], WIRE_FAULTS["cut"]
    assert [all_of_them.hits(number) for number in range(1, 5)] == [True] * 4
    assert [every_second.hits(number) for number in range(1, 5)] == [True, False, True, False]
    assert all_of_them.whom == "every request" and "first among them" in every_second.whom
    assert WIRE_FAULTS["crash_at_c3"].whom == "requests in flight together, from 3 on"


def test_which_faults_there_are_of_a_wire_form():
    assert faults_of("openai_speech") == tuple(WIRE_FAULTS)
    for form in FORMS.keys() - {"openai_speech"}:
        assert set(faults_of(form)) == WIRE_FAULTS.keys() - {"header_first"}, form
        assert set(faults_of(form, audio=False)) == {"crash_at_c3", "http_500", "in_band_error", "stall", "cut"}
    for fault in WIRE_FAULTS.values():
        assert fault.only is None or (fault.only in FORMS and fault.why)


def test_every_wire_form_can_be_taken_apart():
    assert all(form.codec() is not form.codec() for form in FORMS.values())
    assert "openai_realtime" not in FORMS


def test_the_catalogue_is_light():
    """The configuration imports it: no numbers."""
    code = "import sys, omni_bench.targets.chaos_proxy.catalogue; "
    code += "print(sorted({'numpy', 'torch', 'hydra'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
