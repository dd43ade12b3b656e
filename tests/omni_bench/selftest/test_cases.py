"""The cases are the catalogues: nothing is left out, nothing is named twice."""

from __future__ import annotations

import pytest

from omni_bench.errors import ConfigError
from omni_bench.run.config.compose import compose
from omni_bench.selftest.cases import NEEDS_AB, all_faults, chosen_faults, clean_case
from omni_bench.targets.chaos_proxy.catalogue import WIRE_FAULTS
from reference_impl.faults.catalogue import FAULTS


def test_every_fault_of_both_catalogues_is_a_case():
    names = [case.name for case in all_faults()]
    assert sorted(names) == sorted([*FAULTS, *WIRE_FAULTS])
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("case", all_faults(), ids=lambda case: case.name)
def test_a_fault_has_a_detector_named_in_advance(case):
    assert case.expected and case.what and case.source
    assert 1 <= case.min_concurrency <= 4
    assert case.overrides[0] in (f"reference.fault={case.name}", f"target.chaos={case.name}")


@pytest.mark.parametrize("name", ["ref_bleed", "stall"])
def test_the_switches_compose(name):
    (case,) = chosen_faults([name])
    config = compose([*case.overrides, "asr=none"])
    assert name in (config.reference.fault, config.target.chaos)


def test_small_slowdowns_are_left_to_ab():
    left = {case.name for case in all_faults() if not case.testable}
    assert left == {name for name, fault in FAULTS.items() if set(fault.detectors) == {NEEDS_AB}}
    assert all(FAULTS[name].kind == "speed" for name in left)


def test_the_clean_case_changes_nothing_and_expects_nothing():
    case = clean_case()
    assert case.overrides == case.expected == ()
    assert case.testable


def test_choosing():
    assert chosen_faults([]) == all_faults()
    assert [case.name for case in chosen_faults(["cut", "graph_rng"])] == ["graph_rng", "cut"]
    with pytest.raises(ConfigError, match="did you mean 'graph_rng'"):
        chosen_faults(["graph_rgn"])
