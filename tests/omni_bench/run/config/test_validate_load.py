"""Load settings that make no sense together."""

import pytest

from omni_bench.errors import ConfigError
from omni_bench.run.config.compose import compose

OPEN = "load=open_loop"
SEARCH = "load=rate_search"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ([OPEN, "load.arrival=poison"], "load.arrival='poison'"),
        ([OPEN, "load.rate_hz=[]"], "load.rate_hz=[]: at least one rate"),
        ([OPEN, "load.rate_hz=[0]"], "load.rate_hz=0: 0.0001 to 10000"),
        ([OPEN, "load.rate_hz=[5,5.0]"], "5 is there twice"),
        ([OPEN, "load.rate_hz=[5,5.0000001]"], "5 is there twice"),
        ([OPEN, "load.burstiness=2"], "load.burstiness=2 with load.arrival=poisson: add load.arrival=gamma"),
        ([OPEN, "load.arrival=gamma", "load.burstiness=0"], "load.burstiness=0: 0.05 to 1000"),
        ([OPEN, "load.ramp=[1]"], "load.ramp=[1.0]: two rates"),
        ([OPEN, "load.ramp=[]"], "load.ramp=[]: two rates"),
        ([OPEN, "load.ramp=[0,5]"], "load.ramp=0: 0.0001 to 10000"),
        ([OPEN, "load.duration_s=0"], "load.duration_s=0: 0.001 to"),
        ([OPEN, "load.duration_s=100000", "load.rate_hz=[100]"], "more than 500000 requests"),
        ([OPEN, "load.max_in_flight=0"], "load.max_in_flight=0: 1 to 4096"),
        ([OPEN, "load.warmup_requests=-1"], "load.warmup_requests=-1: 0 to"),
        ([OPEN, "load.requests_per_level=0"], "load.requests_per_level=0: 1 to"),
        ([OPEN, "load.rotate_levels=1"], "load.rotate_levels=1: 0 to 0"),
        ([OPEN, "load.arrival=trace"], "load.arrival=trace and load.trace=FILE go together"),
        ([OPEN, "load.trace=a.csv"], "load.arrival=trace and load.trace=FILE go together"),
        ([OPEN, "load.arrival=trace", "load.trace=a.csv", "load.ramp=[1,2]"], "a trace is replayed as it is"),
        (["load.rate_hz=[5]"], "add load=open_loop"),
        ([SEARCH], "load=rate_search needs a limit to search for: add slo=interactive"),
        ([SEARCH, "slo=interactive", "load.probe_requests=58"], "takes at least 59 requests"),
        ([SEARCH, "slo=interactive", "load.rate_hz=[1,2]"], "a rate search starts at one rate"),
        ([SEARCH, "slo=interactive", "load.ramp=[1,2]"], "are of load=open_loop"),
        ([SEARCH, "slo=interactive", "load.precision=0"], "load.precision=0: 0.005 to 1"),
        ([SEARCH, "slo=interactive", "load.max_rate_hz=0.5"], "starts between load.min_rate_hz=0.01"),
        ([SEARCH, "slo=interactive", "load.max_probes=0"], "load.max_probes=0: 1 to"),
        (["slo.ttfp_ms=0"], "slo.ttfp_ms=0"),
        (["slo.stall_s=-1"], "slo.stall_s=-1"),
        (["slo.ttft_ms=0"], "slo.ttft_ms=0: a finite number of at least 1e-06"),
        (["slo.e2el_ms=-1"], "slo.e2el_ms=-1"),
        ([SEARCH, "slo.stall_s=0"], "for a chat's text slo=chat_text, or slo.ttft_ms=450"),
    ],
)
def test_what_cannot_be_run_is_refused(overrides, message):
    with pytest.raises(ConfigError) as error:
        compose(overrides)
    assert message in str(error.value)


@pytest.mark.parametrize("scenario", ["smoke", "qwen3_tts_c16", "qwen3_tts"])
def test_any_scenario_can_be_searched_or_run_as_an_open_loop(scenario):
    found = compose([f"scenario={scenario}", SEARCH, "slo.ttfp_ms=80"])
    assert found.load.kind == "rate_search" and found.dataset.allow_repeats and found.slo.stall_s is None
    assert compose([f"scenario={scenario}", OPEN, "load.rate_hz=[0.5,20]"]).load.rate_hz == [0.5, 20.0]


def test_a_ramp_takes_the_place_of_the_rates():
    assert compose([OPEN, "load.ramp=[1,20]", "load.duration_s=10"]).load.ramp == [1.0, 20.0]


TEXT = ["client=openai_chat_audio", "client.modalities=[text]", "asr=none"]


@pytest.mark.parametrize("limit", ["slo=chat_text", "slo.ttft_ms=300", "slo.tpot_ms=20", "slo.e2el_ms=900"])
def test_a_text_alone_can_be_searched_by_its_own_limits(limit):
    found = compose([*TEXT, SEARCH, limit])
    assert found.slo.ttfp_ms is None and found.slo.stall_s is None


def test_limits_of_audio_and_of_text_go_together_where_both_are_asked_for():
    both = ["client=openai_chat_audio", "client.modalities=[text,audio]", "slo=interactive", "slo.ttft_ms=100"]
    found = compose(both)
    assert (found.slo.ttfp_ms, found.slo.stall_s, found.slo.ttft_ms, found.slo.tpot_ms) == (200.0, 0.0, 100.0, None)
    assert compose(["slo.e2el_ms=5000"]).slo.e2el_ms == 5000.0, "speech ends too"
