"""Which faults of the wire can be asked for with which client: all that have a meaning there, and no other."""

from __future__ import annotations

import pytest

from omni_bench.errors import ConfigError
from omni_bench.load.clients.wire_forms import FORMS
from omni_bench.records.config import ClientConfig, RunConfig, TargetConfig
from omni_bench.run.config.validate_client import validate_requested
from omni_bench.targets.chaos_proxy.catalogue import WIRE_FAULTS, faults_of

CHAT = "openai_chat_audio"
CASES = [(kind, list(form.modalities)) for kind, form in FORMS.items()] + [(CHAT, ["text"]), (CHAT, ["audio"])]


@pytest.mark.parametrize(("kind", "modalities"), CASES)
def test_faults_of_the_wire_by_client(kind, modalities):
    valid = faults_of(kind, audio=modalities != ["text"])
    assert {"cut", "stall", "http_500", "in_band_error", "crash_at_c3"} <= set(valid)
    for name in (None, *WIRE_FAULTS):
        config = RunConfig()
        config.target = TargetConfig(kind="reference", chaos=name)
        config.client = ClientConfig(kind=kind, modalities=modalities)
        config.asr.kind = "none"
        if name is None or name in valid:
            validate_requested(config)
            continue
        with pytest.raises(ConfigError) as refused:
            validate_requested(config)
        message = str(refused.value)
        assert message.startswith(f"target.chaos={name} with client.kind={kind}")
        assert message.endswith(f"; valid there: {', '.join(valid)}") and "\n" not in message
