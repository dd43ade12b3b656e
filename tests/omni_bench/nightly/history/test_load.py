"""What a user names, as records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import run_factory as runs
from repository import ROOT

from omni_bench.errors import ConfigError, StoreError
from omni_bench.nightly.history.load import load_record, load_records
from omni_bench.records.run_folder import RunFolder


@pytest.fixture
def folders(tmp_path):
    """Two run folders with run.json alone, as in reports/baselines."""
    for number in (1, 2):
        folder = RunFolder(tmp_path / "runs" / str(number))
        folder.write_run(runs.make_run(duration_s=60.0 + number))
    return tmp_path / "runs"


def bench(path, concurrency, **changes):
    result = {"date": "20261128-000000", "completed": 8, "failed": 0, "duration": 3.0, "max_concurrency": concurrency}
    path.write_text(json.dumps(result | {"median_audio_rtf": 0.4} | changes))
    return str(path)


def test_folders_and_patterns(folders):
    assert [one.source for one in load_records([str(folders)])] == [str(folders / "1"), str(folders / "2")]
    assert len(load_records([str(folders / "*"), str(folders / "1")])) == 3
    assert load_record(str(folders / "1" / "run.json")).scenario == "qwen3_tts"


def test_files_of_one_sweep_are_one_run(tmp_path):
    files = [bench(tmp_path / f"{level}.json", level) for level in (1, 4)]
    (run,) = load_records([",".join(files)])
    assert [level.load for level in run.levels] == ["c = 1", "c = 4"] and run.advisory
    assert len(load_records(files)) == 2


def test_a_comma_in_the_name_of_a_file_is_part_of_it(tmp_path):
    for level in (1, 4):
        bench(tmp_path / f"a,{level}.json", level)
    (run,) = load_records([str(tmp_path)])
    assert [level.load for level in run.levels] == ["c = 1", "c = 4"]


def test_what_is_no_run(tmp_path):
    with pytest.raises(ConfigError, match="no such file"):
        load_records([str(tmp_path / "no")])
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(StoreError, match="vllm bench"):
        load_records([str(tmp_path / "x.json")])
    with pytest.raises(ConfigError, match="names no run"):
        load_records([","])


REPORTS = ROOT / "reports"


def test_the_committed_baselines_are_valid_and_those_of_the_gallery():
    records = load_records([str(REPORTS / "baselines")])
    assert sorted(record.scenario for record in records) == ["qwen3_tts", "qwen3_tts_c16"]
    for record in records:
        assert record.valid and record.commit and not record.versions["omni-bench.dirty"]
        name = Path(record.source).name
        gallery = REPORTS / name / "run.json"
        assert (REPORTS / "baselines" / name / "run.json").read_bytes() == gallery.read_bytes()
