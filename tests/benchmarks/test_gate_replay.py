"""The report of the replay: counts and verdicts, from hand-made nights."""

from __future__ import annotations

import re

from benchmarks.gate_replay import __main__ as bench
from benchmarks.gate_replay.replay import Nights, replay
from omni_bench.nightly.gate.result import GateOutcome

PASS, ALARM, OPEN = GateOutcome.PASS, GateOutcome.REGRESSION, GateOutcome.INCONCLUSIVE


def history(**alarms):
    """Sixty passes but for what is said of some nights (``n35=ALARM``)."""
    said = [PASS] * 60
    for name, outcome in alarms.items():
        said[int(name[1:]) - 1] = outcome
    return said


def test_a_tally_counts_histories():
    world = Nights(drift=(35, 0.06))
    told = [history(n36=ALARM), history(n40=ALARM), history(n20=ALARM, n35=ALARM, n50=ALARM), history(n12=OPEN)]
    found = bench.tally(world, told)
    assert (found.histories, found.false_alarm, found.in_time, found.later, found.second) == (4, 1, 2, 1, 1)
    assert found.inconclusive_share == 1 / 200


def test_without_a_drift_every_alarm_is_false():
    found = bench.tally(Nights(), [history(n60=ALARM), history()])
    assert (found.false_alarm, found.in_time, found.later, found.second) == (1, 0, 0, 0)


def test_the_report():
    nights = replay(Nights(nights=12, concurrencies=(1,), broken=frozenset({5})), seed=0)
    assert not bench.as_it_should(nights)
    text = bench.render(nights, [bench.tally(Nights(), [history()] * 20)], 1.0, bench.SEED)
    assert "NOT as it should be: alarms in no night, hard failures in night 5" in text
    assert re.search(r"\| 5 +\| HARD FAILURE \|", text) and "0.0 to 16.8 %" in text
    assert text.rstrip().endswith("```sh\npython -m benchmarks.gate_replay\n```")
    assert "--scale 0.5 --seed 3" in bench.render(nights, [], 0.5, 3)
