"""Whether the engine gets a process of its own."""

from __future__ import annotations

import ctypes

import pytest
import torch

from omni_bench.errors import ConfigError
from omni_bench.run.config.compose import compose
from reference_impl import settings as settings_module
from reference_impl.settings import ServerSettings, cuda_devices, may_have_gpu, torch_version


class Driver:
    """A CUDA driver with ``count`` devices."""

    def __init__(self, count, broken=0):
        self.count, self.broken = count, broken

    def cuInit(self, flags):
        return self.broken

    def cuDeviceGetCount(self, pointer):
        pointer._obj.value = self.count
        return 0


@pytest.mark.parametrize(
    ("engine_process", "device", "devices", "two"),
    [
        ("auto", "auto", 0, False),
        ("auto", "auto", 2, True),
        ("auto", "cpu", 2, False),
        ("auto", "cuda:1", 0, True),  # loading tells that it is not there
        (True, "cpu", 0, True),
        (False, "cuda", 1, False),
    ],
)
def test_two_processes_where_they_pay_or_were_asked_for(monkeypatch, engine_process, device, devices, two):
    monkeypatch.setattr(settings_module, "cuda_devices", lambda: devices)
    assert ServerSettings(engine_process=engine_process, device=device).in_two_processes() is two


@pytest.mark.parametrize("value", ["true", "", "True"])
def test_a_word_that_is_none(value):
    with pytest.raises(ConfigError, match=f"'{value}'; valid: auto, true, false"):
        ServerSettings(engine_process=value).in_two_processes()


@pytest.mark.parametrize(("driver", "count"), [(Driver(2), 2), (Driver(0), 0), (Driver(2, broken=100), 0)])
def test_devices_are_those_of_the_driver(monkeypatch, driver, count):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: driver)
    assert cuda_devices() == count


def test_no_driver_is_no_device(monkeypatch):
    def missing(name):
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert cuda_devices() == 0


@pytest.mark.parametrize(
    ("build", "devices", "may"),
    [
        ({"cuda": "13.0", "hip": None}, 1, True),
        ({"cuda": "13.0", "hip": None}, 0, False),
        ({"cuda": None, "hip": None}, 1, False),
        ({"cuda": None, "hip": "7.1"}, 0, True),
    ],
)
def test_pytorch_may_have_a_gpu_as_it_was_built(monkeypatch, build, devices, may):
    monkeypatch.setattr(settings_module, "torch_version", lambda: build)
    monkeypatch.setattr(settings_module, "cuda_devices", lambda: devices)
    assert may_have_gpu() is may


def test_what_pytorch_was_built_for_is_what_it_says_itself():
    built_for = torch_version()
    assert (built_for["__version__"], built_for["cuda"]) == (torch.__version__, torch.version.cuda)
    assert may_have_gpu() or not torch.cuda.is_available()


@pytest.mark.parametrize(("override", "value"), [("true", True), ("false", False), ("auto", "auto")])
def test_the_configuration_takes_all_three(override, value):
    reference = compose([f"reference.engine_process={override}"]).reference
    assert reference.engine_process is value or reference.engine_process == value == "auto"
    text = ServerSettings(engine_process=reference.engine_process).to_json()
    assert ServerSettings.from_json(text).engine_process == value


@pytest.mark.parametrize(
    "name", ["max_batch", "max_queue", "max_seq_len", "join_every_frames", "first_chunk_frames", "chunk_frames"]
)
def test_a_size_of_nothing_is_refused_before_anything_is_loaded(name):
    with pytest.raises(ConfigError, match=f"--settings: {name}=0: at least 1"):
        ServerSettings.from_json(f'{{"{name}": 0}}')
    assert getattr(ServerSettings.from_json(f'{{"{name}": 1}}'), name) == 1


def test_settings_round_trip_and_refuse_unknown_keys():
    settings = ServerSettings(max_batch=4, deterministic=True, threads=1)
    assert ServerSettings.from_json(settings.to_json()) == settings
    with pytest.raises(ConfigError, match=r"unknown key.*batch.*valid: preset"):
        ServerSettings.from_json('{"batch": 4}')
    with pytest.raises(ConfigError, match="not JSON"):
        ServerSettings.from_json("{")
