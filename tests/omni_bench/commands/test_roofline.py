"""``omni-bench roofline`` on a CPU: floors, and the engine's own pace beside them."""

from __future__ import annotations

from dataclasses import asdict

import pytest
import run_factory as runs
import torch

from omni_bench.commands import cli, roofline
from omni_bench.commands.roofline import roofline_command
from omni_bench.errors import ConfigError
from omni_bench.records.run_folder import RunFolder
from omni_bench.run.config.compose import compose
from omni_bench.run.provenance import hardware


@pytest.fixture(autouse=True)
def quick_limits(monkeypatch):
    """What this machine can do is no question here, nor what else it does."""
    from reference_impl.roofline import device_limits
    from reference_impl.roofline.cost_model import Limits

    monkeypatch.setattr(device_limits, "measure_limits", lambda device, dtype: Limits(1e10, 1e11))
    monkeypatch.setattr(device_limits, "busy_share", lambda device: 0.0)


def test_the_engine_is_run_at_each_concurrency(capsys):
    asked = ["--measure", "--frames", "6", "--concurrency", "1", "2", "1"]
    code = cli.main(["roofline", "reference.preset=tiny", "reference.device=cpu", *asked])
    out, err = capsys.readouterr()
    assert code == 0
    head, *rows = [line.split("|")[1:-1] for line in out.splitlines() if line.startswith("|") and ":-" not in line]
    assert [cell.strip() for cell in head] == ["c", "1", "2"] and len(rows) == 11
    assert all("n/a" not in cell for row in rows for cell in row)
    assert [cell.strip()[-1] for row in rows if row[0].strip() == "of floor" for cell in row[1:]] == ["x", "x"]
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
    from reference_impl.roofline import device_limits

    monkeypatch.setattr(device_limits, "busy_share", lambda device: share)
    assert cli.main(["roofline", "reference.device=cpu", "--concurrency", "1"]) == 0
    busy = [line for line in capsys.readouterr().out.splitlines() if "busy" in line]
    assert len(busy) == (told is not None)
    if told is not None:
        assert busy[0].startswith(f"The device was busy: {told} of it") and busy[0].endswith("probably too low.")


def test_others_are_looked_for_before_this_process_works(capsys, monkeypatch):
    from reference_impl.roofline import device_limits

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


@pytest.fixture
def measured_on(tmp_path):
    """A function that writes a run of the bundled server on such hardware and returns its path."""

    def write(machine, device_name="cpu", device="auto"):
        provenance = runs.make_provenance(health={"device": device_name, "device_name": device_name})
        provenance["hardware"] = machine
        provenance["config"] = asdict(compose([f"reference.device={device}"]))
        folder = RunFolder(tmp_path / "run")
        folder.write_run(runs.make_run((1,), provenance=provenance))
        return str(folder.path)

    return write


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def test_a_run_of_this_machine_is_compared(measured_on, no_gpu, capsys):
    path = measured_on(hardware())
    assert cli.main(["roofline", "--run", path]) == 0
    out, err = capsys.readouterr()
    assert f"Measured: {path}" in out and "does not tell" not in out and err == ""
    assert (RunFolder.open(path).path / "roofline.json").is_file()


@pytest.mark.parametrize(
    ("changes", "device_name", "named"),
    [
        ({"gpus": [{"name": "NVIDIA H100"}]}, "NVIDIA H100", "NVIDIA H100"),
        ({"cpu": "Fast CPU 9000", "cpu_cores": 7}, "cpu", "Fast CPU 9000, 7 cores"),
        ({"cpu_cores": 12345}, "cpu", "12345 cores"),
    ],
)
def test_a_run_of_other_hardware_is_refused(changes, device_name, named, measured_on, no_gpu, capsys, monkeypatch):
    monkeypatch.setattr(roofline, "cpu_model", lambda: "Small CPU 1")
    path = measured_on(hardware() | {"cpu": "Small CPU 1"} | changes, device_name)
    assert cli.main(["roofline", "--run", path]) == 2
    out, err = capsys.readouterr()
    assert path in err and f"{named}, and this device is Small CPU 1, " in err and "on that machine" in err
    assert out == "" and not (RunFolder.open(path).path / "roofline.json").exists()


def test_a_run_of_a_device_that_is_not_here_names_its_hardware(measured_on, no_gpu, capsys):
    path = measured_on(hardware(), "NVIDIA H100", device="cuda")
    assert cli.main(["roofline", "--run", path]) == 2
    err = capsys.readouterr().err
    assert "reference.device='cuda'" in err and "measured on NVIDIA H100" in err and "on that machine" in err


def test_a_run_of_unknown_hardware_is_compared_with_a_word(measured_on, no_gpu, capsys):
    assert cli.main(["roofline", "--run", measured_on(hardware() | {"cpu": None})]) == 0
    told = [line for line in capsys.readouterr().out.splitlines() if "does not tell which hardware" in line]
    assert len(told) == 1


@pytest.mark.parametrize(("run_on", "refused"), [("NVIDIA H200", False), ("NVIDIA H100", True), ("cpu", True)])
@pytest.mark.parametrize("cpu", ["Fast CPU 9000", None])
def test_cards_are_compared_by_name(run_on, refused, cpu, measured_on, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H200")
    document = RunFolder.open(measured_on(hardware() | {"cpu": cpu}, run_on)).read_run()
    if refused:
        with pytest.raises(ConfigError, match=f"measured on .*{'CPU' if run_on == 'cpu' else run_on}.*is NVIDIA H200"):
            roofline._check_hardware("some-run", document, torch.device("cuda"))
    else:
        assert roofline._check_hardware("some-run", document, torch.device("cuda")) is None
