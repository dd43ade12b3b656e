"""Every bundled scenario composes, and says what it is."""

from __future__ import annotations

import re

import pytest
import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from repository import ROOT

from omni_bench.datasets.load import load_prompts
from omni_bench.errors import ConfigError
from omni_bench.load.plan import size_load
from omni_bench.records.config import RunConfig
from omni_bench.run.config.compose import (
    CONFIG_NAME,
    GROUPS,
    VERSION_BASE,
    compose,
    group_options,
    register,
    scenario_folder,
    utc_folder_name,
)
from reference_impl.settings import ServerSettings

SCENARIOS = {
    "qwen3_tts": [1, 4, 8, 16, 32],
    "qwen3_tts_c1": [1],
    "qwen3_tts_c4": [4],
    "qwen3_tts_c8": [8],
    "qwen3_tts_c16": [16],
    "qwen3_tts_c32": [32],
    "qwen3_tts_0_6b_shapes": [1, 4, 8, 16, 32],
    "qwen3_tts_1_7b_shapes": [1, 4, 8, 16, 32],
    "smoke": [2],
}
OMNI = ("qwen3_omni_text_audio", "qwen3_omni_text", "qwen3_omni_rates", "qwen3_omni_random")
VARIANTS = {"customvoice": "CustomVoice", "base": "Base", "voicedesign": "VoiceDesign"}
REAL = ("vllm_omni_cpu", "vllm_omni_card")
RATES = {"qwen3_tts_open_loop": [0.25, 0.5, 1.0], "qwen3_tts_rate_search": [1.0]}


def test_these_are_the_scenarios():
    variants = (f"qwen3_tts_{name}" for name in VARIANTS)
    assert sorted(group_options("scenario")) == sorted([*SCENARIOS, *RATES, *OMNI, *variants, *REAL])


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_scenario_composes_to_valid_dataclasses(scenario):
    config = compose([f"scenario={scenario}"])
    assert isinstance(config, RunConfig)
    assert config.scenario.name == scenario and config.scenario.description
    assert config.load.concurrency == SCENARIOS[scenario]
    # A level with fewer requests than slots never reaches its concurrency.
    assert config.load.requests_per_level >= max(config.load.concurrency)
    assert config.target.kind == "reference" and config.dataset.kind == "bundled"
    # random weights speak noise: there is nothing to judge
    assert config.asr.kind == ("none" if config.reference.checkpoint == "random" else "whisper")
    assert config.client.model == config.reference.preset


def test_the_scenario_of_make_real_server_names_what_is_built_there():
    config = compose(["scenario=vllm_omni_cpu"])
    assert (config.target.kind, config.target.cores, config.target.gpus) == ("vllm_omni", 1, 0)
    assert config.load.concurrency == [1, 4] and config.asr.kind == "whisper"
    assert (ROOT / config.target.deploy_config).is_file()
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"REAL_VOICE := {config.client.model}\n" in makefile
    assert f"REAL_VENV := {config.target.python.removesuffix('/bin/python')}\n" in makefile


def test_the_scenario_of_the_card_names_what_its_script_builds():
    config = compose(["scenario=vllm_omni_card"])
    assert (config.target.kind, config.target.gpus, config.load.concurrency[-1]) == ("vllm_omni", 1, 32)
    script = (ROOT / "scripts" / "real_server" / "card.sh").read_text(encoding="utf-8")
    assert f":-{config.target.python}}}" in script and f"voice={config.client.model}\n" in script
    deploy = yaml.safe_load((ROOT / config.target.deploy_config).read_text(encoding="utf-8"))
    assert [stage["max_num_seqs"] for stage in deploy["stages"]] == [32, 32]


@pytest.mark.parametrize("scenario", RATES)
def test_a_scenario_of_rates_has_a_service_level(scenario):
    config = compose([f"scenario={scenario}"])
    assert config.scenario.name == scenario and config.scenario.description
    assert config.load.rate_hz == RATES[scenario] and config.slo.ttfp_ms == 200.0 and config.slo.stall_s == 0.0


@pytest.mark.parametrize("scenario", OMNI)
def test_a_chat_scenario_composes_for_any_server(scenario):
    for overrides in ([], ["target=external", "target.url=http://127.0.0.1:8091", "client.model=Qwen/Qwen3-Omni"]):
        config = compose([f"scenario={scenario}", *overrides])
        assert config.scenario.name == scenario and config.scenario.description
        assert config.client.kind == "openai_chat_audio"
        assert config.target.kind == ("external" if overrides else "reference")
        text_alone = scenario == "qwen3_omni_text"
        assert config.client.modalities == (["text"] if text_alone else ["text", "audio"])
        assert (config.asr.kind == "none") == text_alone  # nothing to hear


def test_the_loads_of_the_chat_scenarios():
    loads = {name: compose([f"scenario={name}"]).load for name in OMNI}
    assert loads["qwen3_omni_text_audio"].concurrency == loads["qwen3_omni_text"].concurrency == [1, 4, 8, 16, 32]
    assert (loads["qwen3_omni_rates"].kind, loads["qwen3_omni_rates"].rate_hz) == ("open_loop", [0.1, 0.5, 1.0])
    dataset = compose(["scenario=qwen3_omni_random"]).dataset
    assert (dataset.kind, dataset.min_words, dataset.max_words) == ("random", 5, 40)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_of_qwen3_tts_composes_for_any_server(variant):
    for overrides in ([], ["target=external", "target.url=http://127.0.0.1:8091", "client.voice=vivian"]):
        config = compose([f"scenario=qwen3_tts_{variant}", *overrides])
        assert config.scenario.description and config.load.concurrency == [1, 4, 8, 16, 32]
        assert (config.client.kind, config.client.task_type) == ("openai_speech", VARIANTS[variant])
        assert config.client.send_reference == (variant == "base")
        assert config.dataset.design == (variant == "voicedesign")


def test_the_scenarios_have_prompts_enough():
    for scenario in ("qwen3_omni_random", "qwen3_tts_base", "qwen3_tts_voicedesign"):
        config = compose([f"scenario={scenario}"])
        prompts = load_prompts(config.dataset, size_load(config.load).prompts)
        assert all((prompt.ref_audio is not None) == (scenario == "qwen3_tts_base") for prompt in prompts)
        assert all((prompt.instructions is not None) == config.dataset.design for prompt in prompts)


def test_the_main_job_is_the_default_and_measures_32_prompts_at_concurrency_16():
    config = compose()
    assert config.scenario.name == "qwen3_tts_c16"
    assert config.load.concurrency == [16] and config.load.requests_per_level == 32


@pytest.mark.parametrize("group", GROUPS)
def test_every_option_of_every_group_is_described(group):
    options = group_options(group)
    assert options
    assert all(options.values()), options


def test_scenarios_are_listed_in_a_natural_order():
    names = list(group_options("scenario"))
    assert names.index("qwen3_tts_c4") < names.index("qwen3_tts_c16")


@pytest.mark.parametrize(
    ("overrides", "kind"),
    [
        (["dataset=seed_tts", "dataset.root=x"], "seed_tts"),
        (["dataset=huggingface", "dataset.hf_id=a/b"], "huggingface"),
        (["dataset=seed_tts_mini"], "bundled"),
        (["dataset=seed_tts_mini_design"], "bundled"),
        (["dataset=seed_tts_design", "dataset.root=x"], "seed_tts"),
        (["dataset=random"], "random"),
    ],
)
def test_data_sets_compose(overrides, kind):
    assert compose(overrides).dataset.kind == kind


def test_an_external_target_composes():
    target = compose(["target=external", "target.url=http://127.0.0.1:8091"]).target
    assert target.kind == "external" and target.url == "http://127.0.0.1:8091"


def test_the_reference_group_is_the_settings_of_the_server():
    composed = compose(["reference.max_batch=4", "reference.chat_token_ms=1"]).reference
    assert composed == ServerSettings(max_batch=4, chat_token_ms=1.0)
    assert ServerSettings.from_json(composed.to_json()) == composed


def test_mappings_take_new_entries_with_a_plus():
    assert compose(["+client.extra_body.foo=1"]).client.extra_body == {"foo": 1}


def test_a_folder_of_the_users_own_adds_scenarios(tmp_path):
    (tmp_path / "scenario").mkdir()
    (tmp_path / "scenario" / "mine.yaml").write_text(
        "# @package _global_\nscenario: {name: mine}\nload: {concurrency: [3]}\n"
    )
    config = compose(["scenario=mine", f"hydra.searchpath=[{tmp_path.as_uri()}]"])
    assert config.scenario.name == "mine" and config.load.concurrency == [3]


def test_a_wrong_key_in_a_users_file_names_the_file(tmp_path):
    (tmp_path / "scenario").mkdir()
    (tmp_path / "scenario" / "mine.yaml").write_text(
        "# @package _global_\nscenario: {name: mine}\nload: {concurency: [3]}\n"
    )
    with pytest.raises(ConfigError, match=r"in scenario/mine\.yaml: unknown key 'load\.concurency'; did you mean"):
        compose(["scenario=mine", f"hydra.searchpath=[{tmp_path.as_uri()}]"])


def test_broken_yaml_in_a_users_file_names_the_file(tmp_path):
    (tmp_path / "scenario").mkdir()
    (tmp_path / "scenario" / "mine.yaml").write_text("scenario: {name: [\n")
    with pytest.raises(ConfigError, match=r"in .*scenario/mine\.yaml: not valid YAML: .*line 2"):
        compose(["scenario=mine", f"hydra.searchpath=[{tmp_path.as_uri()}]"])


def test_a_folder_without_the_schema_is_refused(tmp_path):
    (tmp_path / "config.yaml").write_text("scenario: {name: x}\n")
    with pytest.raises(ConfigError, match="run_schema"):
        compose(config_dir=tmp_path)


def test_run_folders_are_named_by_scenario_and_utc_time():
    register()
    with initialize_config_dir(config_dir=str(scenario_folder()), version_base=VERSION_BASE):
        config = hydra_compose(CONFIG_NAME, overrides=["output.root=/x"], return_hydra_config=True)
        first, second = config.hydra.run.dir, config.hydra.run.dir
    assert re.fullmatch(r"/x/qwen3_tts_c16/\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}Z", first)
    assert first == second, "one configuration has one run folder"
    assert re.fullmatch(r"[\w.-]+Z", utc_folder_name())


def test_composing_does_not_disturb_a_hydra_application_around_it():
    register()
    with initialize_config_dir(config_dir=str(scenario_folder()), version_base=VERSION_BASE):
        compose(["scenario=smoke"])
        assert hydra_compose(CONFIG_NAME, overrides=["scenario=smoke"]).scenario.name == "smoke"


def test_the_scenarios_are_beside_the_package_in_a_checkout():
    assert scenario_folder() in (ROOT / "scenarios", ROOT / "omni_bench" / "_scenarios")


def test_an_installed_package_has_them_inside(tmp_path, monkeypatch):
    package = tmp_path / "omni_bench"
    monkeypatch.setattr("omni_bench.run.config.compose.__file__", str(package / "run" / "config" / "compose.py"))
    with pytest.raises(ConfigError, match="the installation is incomplete"):
        scenario_folder()
    for folder in (tmp_path / "scenarios", package / "_scenarios"):
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_text("")
        assert scenario_folder() == folder, "what another package put beside this one does not count"
