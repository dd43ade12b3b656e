"""``omni-bench roofline`` on a CPU: floors, and the engine's own pace beside them."""

from __future__ import annotations

import re

import pytest

from omni_bench import cli
from omni_bench.commands import roofline
from omni_bench.commands.roofline import roofline_command
from omni_bench.errors import ConfigError


@pytest.fixture(autouse=True)
def quick_limits(monkeypatch):
    """What this machine can do is no question here, nor what else it does."""
    from reference_impl import device_limits
    from reference_impl.cost_model import Limits

    monkeypatch.setattr(device_limits, "measure_limits", lambda device, dtype: Limits(1e10, 1e11))
    monkeypatch.setattr(device_limits, "busy_share", lambda device: 0.0)


def test_the_engine_is_run_at_each_concurrency(capsys):
    asked = ["--measure", "--frames", "6", "--concurrency", "1", "2", "1"]
    code = cli.main(["roofline", "reference.preset=tiny", "reference.device=cpu", *asked])
    out, err = capsys.readouterr()
    assert code == 0
    rows = [line for line in out.splitlines() if re.match(r"\|\s*[12]\s*\|", line)]
    assert len(rows) == 2
    assert all(" x " in row and "n/a" not in row for row in rows)
    assert "the engine with graphs=off" in out
    assert err.count("1 at once") == err.count("2 at once") == 1


def test_without_measure_nothing_is_measured(capsys):
    assert cli.main(["roofline", "reference.device=cpu", "--concurrency", "1"]) == 0
    out = capsys.readouterr().out
    assert "n/a" in out and "Measured:" not in out


def test_more_places_than_rows_are_refused():
    with pytest.raises(ConfigError, match="max_batch=2"):
        roofline_command(None, ["reference.device=cpu", "reference.max_batch=2"], [4], 64, 4, measured_frames=6)


def test_a_run_is_a_measurement_already():
    with pytest.raises(ConfigError, match="--measure"):
        roofline_command("some-run", [], None, 64, 4, measured_frames=6)


@pytest.mark.parametrize(("share", "told"), [(0.87, "87%"), (0.1, "10%"), (0.09, None), (0.0, None), (None, None)])
def test_a_device_that_others_use_is_told_in_one_line(share, told, capsys, monkeypatch):
    from reference_impl import device_limits

    monkeypatch.setattr(device_limits, "busy_share", lambda device: share)
    assert cli.main(["roofline", "reference.device=cpu", "--concurrency", "1"]) == 0
    busy = [line for line in capsys.readouterr().out.splitlines() if "busy" in line]
    assert len(busy) == (told is not None)
    if told is not None:
        assert busy[0].startswith(f"The device was busy: {told} of it") and busy[0].endswith("probably too low.")


def test_others_are_looked_for_before_this_process_works(capsys, monkeypatch):
    from reference_impl import device_limits

    done = []

    def then(name, function):
        return lambda *given: done.append(name) or function(*given)

    monkeypatch.setattr(device_limits, "busy_share", then("others", device_limits.busy_share))
    monkeypatch.setattr(device_limits, "measure_limits", then("limits", device_limits.measure_limits))
    monkeypatch.setattr(roofline, "_measure", then("engine", lambda *given: {}))
    assert cli.main(["roofline", "reference.device=cpu", "--measure", "--concurrency", "1"]) == 0
    assert done == ["others", "limits", "engine"]


def test_a_run_that_is_not_there_is_bad_input(capsys):
    assert cli.main(["roofline", "--run", "/nowhere"]) == 2
    assert "/nowhere is not a run folder" in capsys.readouterr().err
