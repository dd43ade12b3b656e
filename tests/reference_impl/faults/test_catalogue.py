"""The catalogue as others see it, and how a server with a fault makes itself known."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from dataclasses import replace

import pytest

from omni_bench.errors import ConfigError
from omni_bench.run.config.compose import compose
from omni_bench.run.config.validate import validate
from reference_impl.build import build_engine
from reference_impl.engine.code2wav_worker import AudioWorker
from reference_impl.engine.decode_batch import DecodeBatch
from reference_impl.engine.engine import Engine
from reference_impl.engine.stages import Stages, chunk_schedule
from reference_impl.faults.catalogue import FAULTS, MODEL, SPEED, fault_called
from reference_impl.faults.engines import with_fault
from reference_impl.http.metrics import ServerMetrics
from reference_impl.settings import ServerSettings


def test_entries_are_complete_and_use_the_known_words():
    for name, fault in FAULTS.items():
        assert name == fault.name and fault.what and fault.source
        assert fault.kind in (MODEL, SPEED) and fault.min_concurrency >= 1
        assert fault.detectors
    assert [f.kind for f in FAULTS.values()].count(MODEL) == 14
    assert [f.kind for f in FAULTS.values()].count(SPEED) == 8


def test_the_catalogue_loads_without_pytorch_and_a_clean_engine_without_the_faults():
    program = (
        "import sys; import reference_impl.faults.catalogue; print('torch' in sys.modules);"
        "import reference_impl.build; print('reference_impl.faults.engines' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == ["False", "False"]


def test_an_unknown_name_is_an_error_with_the_valid_ones():
    for attempt in (
        lambda: fault_called("shared_buf"),
        lambda: with_fault("shared_buf", Stages()),
        lambda: build_engine(ServerSettings(fault="shared_buf")),
    ):
        with pytest.raises(ConfigError, match=r"shared_buf.*shared_proj_buf.*slow_8"):
            attempt()


def test_the_configuration_takes_every_name_and_no_other():
    config = compose(["reference.fault=stale_rows"])
    assert config.reference.fault == "stale_rows"
    for name in (None, *FAULTS, "slow_1", "slow_200"):
        validate(replace(config, reference=replace(config.reference, fault=name)))
    for name in ("slow_0", "slow_201", "slow_", "slow_05", "slow_8x"):
        with pytest.raises(ConfigError, match=rf"reference\.fault='{name}'.*(1 to 200|slow_5)"):
            compose([f"reference.fault={name}"])


def test_any_slowdown_can_be_asked_for():
    assert fault_called("slow_23").what == "every step takes 23 % longer" and fault_called("slow_23").kind == SPEED
    assert with_fault("slow_23", Stages())[1].batch.keywords == {"share": 0.23}


def test_a_fault_is_told_in_the_log_in_health_and_in_metrics(broken, clean, caplog):
    with caplog.at_level(logging.WARNING):
        engine = broken("empty_ok").engine
    assert f"FAULT INJECTED: empty_ok - {FAULTS['empty_ok'].what}" in caplog.text
    assert json.loads(json.dumps(engine.describe()))["fault"] == "empty_ok"
    assert clean.engine.describe()["fault"] is None
    line = 'omni_reference_fault_injected{fault="empty_ok"} 1.0'
    assert line in ServerMetrics(lambda: engine).render().decode()
    assert "fault_injected" not in ServerMetrics(lambda: clean.engine).render().decode()


def test_a_fault_changes_one_stage_or_the_engine_and_leaves_the_clean_ones_alone():
    for name in FAULTS:
        kind, broken = with_fault(name, Stages())
        changed = [
            field for field in ("batch", "code2wav", "chunks") if getattr(broken, field) != getattr(Stages(), field)
        ]
        assert broken.fault == name and len(changed) + (kind is not Engine) == 1
    assert Stages() == Stages(DecodeBatch, AudioWorker, chunk_schedule, None)
