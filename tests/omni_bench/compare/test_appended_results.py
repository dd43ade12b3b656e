"""One file with several results, as ``vllm bench serve --append-result`` leaves it (vllm issue 17028)."""

from __future__ import annotations

import json

import pytest

from omni_bench.compare.load import load_arm, read_json
from omni_bench.errors import StoreError


def result(concurrency: int) -> dict:
    return {
        **{"date": "20261128-100000", "backend": "openai-audio-speech", "model_id": "m", "num_prompts": 64},
        **{"request_rate": "inf", "max_concurrency": concurrency, "duration": 10.0, "completed": 64, "failed": 0},
        **{"request_throughput": 6.4, "audio_throughput": 12.0, "mean_audio_ttfp_ms": 90.0 * concurrency},
    }


@pytest.mark.parametrize("between", ["\n", "", " \n\n"])
def test_appended_results_are_the_levels_of_a_run(tmp_path, between):
    path = tmp_path / "bench.json"
    path.write_text(between.join(json.dumps(result(c)) for c in (1, 4)) + "\n")
    (run,) = load_arm(str(path))
    assert [level.concurrency for level in run.levels] == [1, 4]
    assert [level.metrics["ttfp_ms"]["mean"] for level in run.levels] == [90.0, 360.0]
    with pytest.raises(StoreError, match="holds 2 JSON values"):
        read_json(path)


@pytest.mark.parametrize("text", ["", "  ", '{"a": 1} x', '{"a": 1}{"b"'])
def test_what_is_not_json_behind_or_alone_is_refused(tmp_path, text):
    path = tmp_path / "bench.json"
    path.write_text(text)
    with pytest.raises(StoreError, match="is not JSON"):
        load_arm(str(path))


def test_a_list_of_results_is_as_good(tmp_path):
    path = tmp_path / "bench.json"
    path.write_text(json.dumps([result(1), result(4)]))
    (run,) = load_arm(str(path))
    assert [level.concurrency for level in run.levels] == [1, 4]
    path.write_text(json.dumps([result(1), {"a": 1}]))
    with pytest.raises(StoreError, match=r"bench\.json, result 2 is not a result"):
        load_arm(str(path))


@pytest.mark.parametrize("cut", [1, 5, 40, 130])
def test_of_a_file_that_was_cut_the_result_is_named(tmp_path, cut):
    path = tmp_path / "bench.json"
    path.write_text("\n".join(json.dumps(result(c)) for c in (1, 2, 4))[:-cut])
    with pytest.raises(StoreError, match=r"bench\.json, result 3 of it is not JSON: .*cut off"):
        load_arm(str(path))
