"""Values that have the right type and still make no sense."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from omni_bench.errors import ConfigError
from omni_bench.records.config import RunConfig
from omni_bench.run.config.compose import compose
from omni_bench.run.config.validate import validate

EXTERNAL, COMMAND = "target=external", "target=command"


def changed(*overrides: str) -> RunConfig:
    """A valid configuration with ``group.key=value`` or ``group=kind`` applied (composing would take 0.2 s each)."""
    config = RunConfig()
    config.scenario.name = "test"
    kinds = {
        "target": "reference",
        "dataset": "bundled",
        "client": "openai_speech",
        "load": "closed_loop",
        "asr": "none",
    }
    for group, kind in kinds.items():
        getattr(config, group).kind = kind
    config.dataset.name = "test"
    for override in overrides:
        path, _, text = override.partition("=")
        group, _, key = path.partition(".")
        value: Any = yaml.safe_load(text)
        node = getattr(config, group)
        if isinstance(getattr(node, key or "kind"), float):
            value = float(value)
        setattr(node, key or "kind", value)
    return config


def test_the_unchanged_configuration_is_valid():
    validate(changed())


CASES = [
    (["scenario.name=../x"], "scenario.name='../x': names a folder"),
    (["scenario.name=''"], "scenario.name=''"),
    (["target.kind=refrence"], "target.kind='refrence'; did you mean 'reference'? Valid: command, external, reference"),
    ([EXTERNAL], "target.url is needed for target=external"),
    ([EXTERNAL, "target.url=127.0.0.1:8091"], "target.url='127.0.0.1:8091': not an http or https URL"),
    ([EXTERNAL, "target.url='http://x:99999'"], "not an http or https URL"),
    ([EXTERNAL, "target.url='http://x/?a'"], "without '?' or '#'"),
    ([EXTERNAL, "target.url='http://me:pw@x'"], "target.url='http://...@x': a user name or password"),
    (["target.url='http://x:1'"], "takes no URL; use target=external"),
    ([COMMAND], "target.command is needed for target=command"),
    ([COMMAND, "target.command='serve'"], "target.command='serve': needs {port} where the port belongs"),
    ([COMMAND, 'target.command="serve \' {port}"'], "no closing quotation"),
    ([COMMAND, "target.command=' '", "target.port=1"], "names no program"),
    ([COMMAND, "target.command='serve {port}'", "target.url='http://x:1'"], "takes no URL"),
    (["target.command='serve {port}'"], "target.command is for target=command, not for the target 'reference'"),
    ([EXTERNAL, "target.url='http://x:1'", "target.env={CARD: '0'}"], "target.env: the target 'external' is not"),
    ([EXTERNAL, "target.url='http://x:1'", "target.python=/bin/python"], "target.python: the target 'external' is not"),
    (["target.port=65536"], "target.port=65536: 0 (a free port is chosen) to 65535"),
    (["target.host=''"], "target.host=''"),
    (["target.health_path=health"], "target.health_path='health': a path that starts with '/'"),
    (["target.startup_timeout_s=0"], "target.startup_timeout_s=0.0: a finite number above 0"),
    (["target.stop_timeout_s=.inf"], "target.stop_timeout_s=inf"),
    (["target.chaos=cutt"], "target.chaos='cutt'; did you mean 'cut'? Valid: crash_at_c3, cut,"),
    (["client.content_types=[mpeg]"], "client.content_types='mpeg': a type and a subtype, such as audio/mpeg"),
    (["client.api_key_header='api key'"], "client.api_key_header='api key': the name of a header, such as api-key"),
    (["client.api_key_header=api-key"], "client.api_key_header=api-key without a key: name the variable that holds it"),
    (["client.api_key_header=Host"], "client.api_key_header=Host: it has another use; valid: Authorization, or"),
    (["client.stall_timeout_s=0"], "client.stall_timeout_s=0.0: a finite number above 0"),
    (["dataset.kind=csv"], "dataset.kind='csv'; valid: bundled, huggingface, random, seed_tts"),
    (["dataset=random", "dataset.design=true"], "dataset.design=true is for the kinds seed_tts and bundled"),
    (["dataset=random", "dataset.min_words=0"], "dataset.min_words=0, dataset.max_words=40: 1 to 500"),
    (["dataset=random", "dataset.min_words=41"], "dataset.min_words=41, dataset.max_words=40: 1 to 500, the first not"),
    (["dataset.subset=0"], "dataset.subset=0: at least 1"),
    (["dataset=seed_tts"], "dataset.root is needed"),
    (["dataset=huggingface"], "dataset.hf_id is needed"),
    (["dataset.locale=../en"], "dataset.locale='../en'"),
    (["client.kind=grpc"], "client.kind='grpc'; valid: openai_chat_audio, openai_speech, openai_speech_sse, "),
    (
        ["client.modalities=[text]"],
        "client.modalities=['text'] is for client.kind=openai_chat_audio, not for openai_speech",
    ),
    (["client=openai_chat_audio", "client.modalities=[]"], "valid: [text], [text,audio], [audio]"),
    (["client=openai_chat_audio", "client.modalities=[video]"], "client.modalities='video'; valid: audio, text"),
    (["client=openai_chat_audio", "client.modalities=[text,text]"], "lists one twice"),
    (["client=openai_chat_audio", "client.modalities=[text]", "asr.kind=whisper"], "nothing to hear; add asr=none"),
    (["client=openai_chat_audio", "client.modalities=[audio]", "asr.kind=whisper"], "only known from its text"),
    (["client=openai_chat_audio", "client.modalities=[text]", "checks.parity_requests=2"], "compares audio"),
    (["client=openai_chat_audio", "client.modalities=[text]", "slo.ttfp_ms=100"], "slo.ttfp_ms is a limit on audio"),
    (
        ["slo.ttft_ms=100"],
        "slo.ttft_ms is a limit on a chat's text, and client.kind=openai_speech asks for none; valid",
    ),
    (["client=openai_chat_audio", "client.modalities=[audio]", "slo.tpot_ms=9"], "asks for none; add text to it"),
    (
        ["client=openai_speech_ws", "target.chaos=header_first"],
        "target.chaos=header_first with client.kind=openai_speech_ws: it is a mistake in a body of bare samples alone; "
        "valid there: crash_at_c3, http_500, in_band_error, stall, cut, drop_chunk,",
    ),
    (
        ["client=openai_chat_audio", "client.modalities=[text]", "target.chaos=odd_bytes"],
        "and client.modalities=['text']: it damages audio, and none is asked for; "
        "valid there: crash_at_c3, http_500, in_band_error, stall, cut",
    ),
    (
        ["client.extra_body={split_granularity: clause}"],
        "client.extra_body.split_granularity with client.kind=openai_speech: servers ignore it there, as the text "
        "comes whole; valid with client=openai_speech_ws: none, sentence, clause",
    ),
    (["client.reference_form=path"], "client.reference_form='path'; valid: base64, file"),
    (["client.sample_rate_hz=0"], "client.sample_rate_hz=0"),
    (["client.max_new_tokens=0"], "client.max_new_tokens=0: at least 1, or null"),
    (["client.request_timeout_s=-1"], "client.request_timeout_s=-1.0"),
    (["client.connect_timeout_s=0"], "client.connect_timeout_s=0.0"),
    (["client.max_audio_s=.nan"], "client.max_audio_s=nan"),
    (["load.kind=open_lop"], "load.kind='open_lop'"),
    (["load.concurrency=[]"], "load.concurrency=[]: at least one level"),
    (["load.concurrency=[1,0]"], "load.concurrency=[1, 0]: 0 is not within 1 to 4096"),
    (["load.concurrency=[4,1,4]"], "4 is there twice"),
    (["load.requests_per_level=0"], "load.requests_per_level=0: at least 1"),
    (["load.requests_per_slot=-1"], "load.requests_per_slot=-1: 0 (no minimum) or more"),
    (["load.warmup_per_slot=-1"], "load.warmup_per_slot=-1: 0 or more"),
    (["load.rotate_levels=1"], "load.rotate_levels=1: 0 to 0 for 1 levels"),
    (["load.lag_budget_ms=0"], "load.lag_budget_ms=0.0"),
    (["asr.kind=google"], "asr.kind='google'; valid: faster_whisper, none, whisper"),
    (["asr.model=''"], "asr.model=''"),
    (["asr.device=gpu"], "asr.device='gpu'; valid: auto, cpu, cuda, cuda:N"),
    (["asr.workers=0"], "asr.workers=0: at least 1"),
    (["asr.batch_size=0"], "asr.batch_size=0: at least 1"),
    (["asr.lead_silence_ms=5001"], "asr.lead_silence_ms=5001: 0 to 5000"),
    (["asr.tail_silence_ms=30000"], "asr.tail_silence_ms=30000: 0 to 5000"),
    (["checks.speaker_similarity=true"], "checks.speaker_similarity=true with asr=none"),
    (["asr.wer_limit=15"], "asr.wer_limit=15.0: a share from 0 to 1"),
    (["reference.device=tpu"], "reference.device='tpu'"),
    (["reference.dtype=int8"], "reference.dtype='int8'; valid: auto, bfloat16, float32"),
    (["reference.preset=tinny"], "reference.preset='tinny'; did you mean 'tiny'"),
    (["reference.preset=qwen3_tts_0_6b"], "no weights of reference.preset=qwen3_tts_0_6b come with"),
    (["reference.checkpoint=''"], "reference.checkpoint=''"),
    (["reference.chat_token_ms=-1"], "reference.chat_token_ms=-1.0: 0 to 10000 ms a token"),
    (["reference.engine_process=always"], "reference.engine_process='always'; valid: auto, true, false"),
    (["reference.max_batch=0"], "reference.max_batch=0: at least 1"),
    (["reference.max_queue=0"], "reference.max_queue=0"),
    (["reference.join_every_frames=0"], "reference.join_every_frames=0"),
    (["reference.max_seq_len=0"], "reference.max_seq_len=0"),
    (["reference.first_chunk_frames=0"], "reference.first_chunk_frames=0"),
    (["reference.chunk_frames=0"], "reference.chunk_frames=0"),
    (["reference.first_chunk_frames=9"], "reference.first_chunk_frames=9: at most reference.chunk_frames=8"),
    (["reference.temperature=-1.0"], "reference.temperature=-1.0: 0 (greedy) or more"),
    (["reference.predictor_temperature=.nan"], "reference.predictor_temperature=nan"),
    (["reference.top_k=-1"], "reference.top_k=-1"),
    (["reference.predictor_top_k=-1"], "reference.predictor_top_k=-1"),
    (["reference.top_p=0"], "reference.top_p=0: above 0"),
    (["reference.predictor_top_p=1.5"], "reference.predictor_top_p=1.5: above 0"),
    (["reference.repetition_penalty=0"], "reference.repetition_penalty=0: a finite"),
    (["reference.predictor=graph"], "reference.predictor='graph'"),
    (["reference.checkpoint=random", "asr.kind=whisper"], "random weights speak noise"),
    (["reference.threads=0"], "reference.threads=0"),
    (["output.save_audio=some"], "output.save_audio='some'; valid: all, none, worst"),
    (["output.root=''"], "output.root=''"),
    (["output.kept_audio_mb=-1"], "output.kept_audio_mb=-1"),
    (["output.kept_audio_mb=.inf"], "output.kept_audio_mb=inf: a finite number"),
]


@pytest.mark.parametrize(("overrides", "message"), CASES, ids=[" ".join(case[0]) for case in CASES])
def test_a_value_that_cannot_be_run_is_named(overrides, message):
    with pytest.raises(ConfigError) as caught:
        validate(changed(*overrides))
    assert message in str(caught.value)


def test_a_launch_command_needs_a_port_somewhere():
    validate(changed(COMMAND, "target.command='serve {port}'", "target.env={CARD: '0'}"))
    validate(changed(COMMAND, "target.command=serve", "target.port=8091"))


def test_the_limits_themselves_are_allowed():
    config = changed()
    config.asr.wer_limit = 0.0
    config.load.warmup_per_slot = 0
    config.load.concurrency = [4096]
    config.reference.temperature = 0.0
    config.output.kept_audio_mb = 0.0
    validate(config)
    config.asr.wer_limit = 1.0
    config.asr.device = "cuda:1"
    config.target.port = 65535
    validate(config)


@pytest.mark.parametrize("kind", ["openai_speech_sse", "openai_speech_wav", "openai_speech_ws"])
def test_every_form_of_speech_can_be_run(kind):
    validate(changed(f"client={kind}"))


def test_a_chat_can_be_judged():
    validate(changed("client=openai_chat_audio", "client.modalities=[text,audio]", "asr.kind=whisper"))


@pytest.mark.parametrize("modalities", ["text", "audio"])
def test_a_chat_of_one_modality_can_be_run_without_a_judge(modalities):
    validate(changed("client=openai_chat_audio", f"client.modalities=[{modalities}]"))


@pytest.mark.parametrize(
    ("override", "place"),
    [
        ("+client.extra_body.auth={token: [sk-hunter2-9]}", "client.extra_body.auth.token"),
        ("client.instructions=sk-hunter2-9", "client.instructions"),
        ("+target.env.HEADERS='Bearer sk-hunter2-9'", "target.env.HEADERS"),
    ],
)
def test_the_key_itself_does_not_get_into_a_run(monkeypatch, override, place):
    monkeypatch.setenv("MY_KEY", "sk-hunter2-9")
    with pytest.raises(ConfigError, match=f"{place} holds the key that client.api_key_env=MY_KEY names") as caught:
        compose(["client.api_key_env=MY_KEY", override])
    assert "hunter2" not in str(caught.value)
