"""What each kind of target needs, and what it cannot take."""

from __future__ import annotations

import math
import re

import pytest

from omni_bench.errors import ConfigError
from omni_bench.records.config import TargetConfig
from omni_bench.run.config.compose import compose
from omni_bench.run.config.validate_target import validate_target

EXTERNAL = {"kind": "external", "url": "http://127.0.0.1:1"}
COMMAND = {"kind": "command", "command": "serve {port}"}
VLLM = {"kind": "vllm_omni", "model": "Qwen/X"}
SGLANG = {"kind": "sglang_omni", "model": "/models/x"}
REFERENCE = {"kind": "reference"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (EXTERNAL | {"devices": ["0"]}, "target.devices: the target 'external' is not launched here"),
        (VLLM | {"model": None}, "client.model, or target.model, is needed for target=vllm_omni: a folder"),
        (VLLM | {"model": "--help"}, "client.model, or target.model, is '--help': a folder or a hub id, and no option"),
        (VLLM | {"url": "http://x:1"}, "takes no URL; use target=external"),
        (VLLM | {"command": "x {port}"}, "target.command is for target=command, not for the target 'vllm_omni'"),
        (SGLANG | {"stage_overrides": {"0": 1}}, "target.stage_overrides is for target=vllm_omni, not for the target"),
        (VLLM | {"stage_overrides": {"0": math.nan}}, "target.stage_overrides={'0': nan} is not JSON"),
        (REFERENCE | {"model": "x"}, "target.model is for target=vllm_omni, target=sglang_omni, not for the target"),
        (REFERENCE | {"extra_args": ["--x"]}, "target.extra_args is for target=vllm_omni, target=sglang_omni, not"),
        (COMMAND | {"deploy_config": "a"}, "target.deploy_config is for target=vllm_omni, target=sglang_omni, not"),
        (VLLM | {"gpus": -1}, "target.gpus=-1: how many GPUs the server needs, 0 for none"),
        (VLLM | {"devices": ["0", "0"]}, "target.devices=['0', '0']: the GPUs' numbers or UUIDs, each once"),
        (VLLM | {"devices": ["0,1"]}, "target.devices=['0,1']: the GPUs' numbers or UUIDs, each once"),
        (VLLM | {"devices": ["0"], "gpus": 2}, "target.devices=['0']: fewer than target.gpus=2"),
        (
            VLLM | {"devices": ["0"], "env": {"CUDA_VISIBLE_DEVICES": "1"}},
            "target.devices and target.env.CUDA_VISIBLE_DEVICES say the same",
        ),
    ],
)
def test_a_value_that_cannot_be_run_is_named(values, message):
    with pytest.raises(ConfigError) as caught:
        validate_target(TargetConfig(**values))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "values",
    [
        VLLM | {"devices": ["1", "GPU-ab"], "gpus": 2, "deploy_config": "d.yaml", "extra_args": ["--log-stats"]},
        VLLM | {"stage_overrides": {"0": {"max_num_seqs": 8}}},
        SGLANG | {"devices": [], "python": "/venv/bin/python"},
        COMMAND | {"devices": ["0"], "gpus": 1},
        REFERENCE | {"devices": ["1"]},
        EXTERNAL,
    ],
)
def test_what_is_theirs_is_taken(values):
    validate_target(TargetConfig(**values))


@pytest.mark.parametrize(
    ("values", "named"),
    [
        (VLLM | {"env": {"HF_TOKEN": "hunter2"}}, "target.env.HF_TOKEN looks like a secret"),
        (COMMAND | {"env": {"my_api_key": "hunter2"}}, "target.env.my_api_key looks like a secret"),
        (VLLM | {"extra_args": ["--api-key", "hunter2"]}, "target.extra_args: --api-key looks like a secret"),
        (VLLM | {"extra_args": ["--hf-token=hunter2"]}, "target.extra_args: --hf-token looks like a secret"),
        (COMMAND | {"command": "serve --api-key hunter2"}, "target.command: --api-key looks like a secret"),
    ],
)
def test_no_secret_gets_into_what_is_stored_with_the_run(values, named):
    with pytest.raises(ConfigError, match=re.escape(named)) as raised:
        validate_target(TargetConfig(**values))
    assert "hunter2" not in str(raised.value)


def test_what_only_sounds_like_a_secret_is_taken():
    env = {"TOKENIZERS_PARALLELISM": "false", "MAX_TOKENS": "9"}
    validate_target(TargetConfig(**VLLM, env=env, extra_args=["--tokenizer", "x", "--max-num-batched-tokens", "512"]))


def test_the_groups_of_the_configuration():
    config = compose(
        [
            "target=vllm_omni",
            "client.model=Qwen/X",
            "target.devices=[1,GPU-ab]",
            "+target.stage_overrides.0={max_num_seqs: 8}",
            "target.extra_args=[--log-stats]",
        ]
    ).target
    assert (config.kind, config.model, config.devices, config.gpus) == ("vllm_omni", "Qwen/X", ["1", "GPU-ab"], 1)
    assert config.stage_overrides == {"0": {"max_num_seqs": 8}} and config.extra_args == ["--log-stats"]
    assert config.env == {"HF_HUB_OFFLINE": "1"}, "nothing is downloaded behind the user's back"
    assert config.startup_timeout_s == 900
    config = compose(["target=sglang_omni", "client.model=m", "target.model=/models/x"]).target
    assert (config.kind, config.model, config.gpus) == ("sglang_omni", "/models/x", 1)
