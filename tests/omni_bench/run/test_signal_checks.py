"""The signal checks of a level: read from the spooled audio, stored, and read back."""

from dataclasses import replace

import numpy as np
import pytest

from omni_bench.accuracy.signal.level_audio import LevelAudio
from omni_bench.accuracy.signal.shared_audio import SharedAudio
from omni_bench.errors import StoreError
from omni_bench.metrics.request import request_metrics
from omni_bench.records.config import RunConfig
from omni_bench.records.prompt import Prompt
from omni_bench.records.timeline import RequestError, Timeline
from omni_bench.run.level_result import RequestResult
from omni_bench.run.signal_checks import speaks, with_signal_faults
from omni_bench.run.stored_results import read_stored, result_record, shared_from, shared_records

PROMPTS = {name: Prompt(name, f"text of {name}", None, None, "en") for name in ("victim", "owner")}
SHARED = SharedAudio("victim", "owner", 0.5, 1.25, 0.375)


def noise(seed):
    return np.round(np.random.default_rng(seed).normal(size=40_000) * 3000).astype("<i2")


def result(folder, name, samples, faults=(), error=None):
    path = folder / f"{name}.pcm"
    path.write_bytes(samples.tobytes())
    size = 2 * len(samples)
    ended, failed = (None, 9) if error else (9, None)
    timeline = Timeline(name, name, 2, 0, 0, 0, 1, 1, 1, ended, failed, (1,), (size,), 24_000, 2, 200, error)
    metrics = request_metrics(timeline, samples.tobytes())
    return RequestResult(timeline, f"text of {name}", "en", metrics, faults, path)


def test_what_is_found_joins_what_was_known(tmp_path):
    victim, owner = noise(1), noise(2)
    victim[9000:20_000] = owner[15_000:26_000]
    requests = (result(tmp_path, "victim", victim, ("truncated",)), result(tmp_path, "owner", owner))
    checked, together = with_signal_faults(requests, PROMPTS)
    assert together.answers == 2
    assert checked[0].faults == ("truncated", "noise", "shared_audio")
    assert [one.source for one in checked[0].shared] == ["owner"]
    assert [one.request_id for one in checked] == ["victim", "owner"]


def test_failed_requests_and_those_without_audio_stay_as_they_are(tmp_path):
    failed = result(tmp_path, "failed", noise(1), error=RequestError("disconnected", "made up"))
    silent = replace(result(tmp_path, "silent", noise(1), ("unchecked",)), audio=None)
    assert with_signal_faults((failed, silent), PROMPTS) == ((failed, silent), LevelAudio())


def test_shared_audio_goes_to_json_and_back(tmp_path):
    request = replace(result(tmp_path, "victim", noise(1)), shared=(SHARED,))
    records = shared_records(request)
    assert records == [{"source": "owner", "at_s": 0.5, "source_at_s": 1.25, "duration_s": 0.375}]
    assert shared_from(records, "victim") == (SHARED,)
    assert shared_from((), "victim") == ()


@pytest.mark.parametrize(
    "value", [None, [1], [{"source": "a"}], [{"source": "a", "at_s": True, "source_at_s": 0, "duration_s": 0}]]
)
def test_other_forms_are_refused(tmp_path, value):
    request = result(tmp_path, "victim", noise(1))
    record = {**result_record(request, None), "shared_audio": value}
    with pytest.raises(StoreError, match="shared_audio"):
        shared_from(read_stored(record, request.timeline).shared_audio, "victim")


def test_random_weights_do_not_speak():
    config = RunConfig()
    config.target.kind = "reference"
    assert speaks(config)
    config.reference.checkpoint = "random"
    assert not speaks(config)
    config.target.kind = "external"
    assert speaks(config)
    config.checks.signal = False
    assert not speaks(config)
