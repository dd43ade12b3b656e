"""Local arrow and parquet through the `datasets` library, and what happens without a hub."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile

from omni_bench.datasets import huggingface
from omni_bench.datasets.huggingface import read_huggingface
from omni_bench.datasets.load import load_prompts
from omni_bench.errors import DatasetError
from omni_bench.records.config import DatasetConfig

ROWS = {"id": ["a", "b"], "text": [" One. ", "Two."], "ref_text": ["Ref.", None]}


@pytest.fixture(scope="module")
def datasets():
    """The library. Imported at the top it would take a second of every process that collects the tests."""
    import datasets

    return datasets


@pytest.fixture(autouse=True)
def own_caches(tmp_path, monkeypatch, datasets):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hf")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def wav_bytes(level: int = 100) -> bytes:
    buffer = io.BytesIO()
    soundfile.write(buffer, np.full(240, level, dtype=np.int16), 24000, format="WAV", subtype="PCM_16")
    return buffer.getvalue()


def config_for(path, **changes) -> DatasetConfig:
    return replace(DatasetConfig(kind="huggingface", name="x", hf_id=str(path), shuffle=False), **changes)


def write_parquet(path, columns=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns or ROWS), path)
    return path


def test_parquet_file_without_audio(tmp_path):
    prompts = load_prompts(config_for(write_parquet(tmp_path / "x.parquet"), locale="de"), 2)
    assert [(p.id, p.text, p.ref_text, p.ref_audio, p.language) for p in prompts] == [
        ("a", "One.", "Ref.", None, "de"),
        ("b", "Two.", None, None, "de"),
    ]


def test_blank_reference_texts_are_none(tmp_path):
    path = write_parquet(tmp_path / "x.parquet", {**ROWS, "ref_text": [" ", ""]})
    assert [prompt.ref_text for prompt in load_prompts(config_for(path), 2)] == [None, None]


def test_arrow_file_and_save_to_disk(tmp_path, datasets):
    table = datasets.Dataset.from_dict(ROWS)
    table.save_to_disk(str(tmp_path / "saved"))
    datasets.DatasetDict({"test": table}).save_to_disk(str(tmp_path / "dict"))
    arrow = next((tmp_path / "saved").glob("*.arrow"))
    for path in (tmp_path / "saved", tmp_path / "dict", arrow):
        assert read_huggingface(config_for(path)).ids == ("a", "b")
    with pytest.raises(DatasetError, match=r"no split 'dev' .* valid: test"):
        read_huggingface(config_for(tmp_path / "dict", hf_split="dev"))


def test_folder_takes_the_files_named_for_the_split(tmp_path):
    write_parquet(tmp_path / "d/data/train-00000-of-00001.parquet", {"id": ["t"], "text": ["Train."]})
    write_parquet(tmp_path / "d/data/test-00000-of-00001.parquet", {"id": ["x"], "text": ["Test."]})
    assert read_huggingface(config_for(tmp_path / "d")).ids == ("x",)
    assert read_huggingface(config_for(tmp_path / "d", hf_split="train")).ids == ("t",)
    with pytest.raises(DatasetError, match=r"no split 'validation' .* valid: test, train"):
        read_huggingface(config_for(tmp_path / "d", hf_split="validation"))
    with pytest.raises(DatasetError, match="not a slice"):
        read_huggingface(config_for(tmp_path / "d", hf_split="test[:1]"))


def test_folder_without_split_names_is_taken_whole(tmp_path):
    write_parquet(tmp_path / "test/part1.parquet", {"id": ["1"], "text": ["One."]})
    write_parquet(tmp_path / "test/part2.parquet", {"id": ["2"], "text": ["Two."]})
    assert read_huggingface(config_for(tmp_path / "test", hf_split="train")).ids == ("1", "2")


def test_columns_are_mapped(tmp_path):
    path = write_parquet(tmp_path / "x.parquet", {"key": [7, 8], "sentence": ["One.", "Two."], "hint": ["r", "s"]})
    columns = {"id": "key", "text": "sentence", "ref_text": "hint"}
    source = read_huggingface(config_for(path, hf_columns=columns))
    assert source.ids == ("7", "8")
    assert source.take(1).ref_text == "s"
    numbered = read_huggingface(config_for(path, hf_columns={**columns, "id": ""}))
    assert numbered.ids == ("row_000000", "row_000001")


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"text": "sentence"}, ["hf_columns.text", "'sentence'", "available: id, text, ref_text"]),
        ({"ref_audio": "wav"}, ["hf_columns.ref_audio", "'wav'", "available"]),
        ({"txt": "text"}, ["unknown key(s) txt", "valid: id, text, ref_text, ref_audio"]),
        ({"text": ""}, ["hf_columns.text is empty", "id, text, ref_text"]),
    ],
)
def test_missing_column_lists_the_available_ones(tmp_path, columns, words):
    path = write_parquet(tmp_path / "x.parquet")
    with pytest.raises(DatasetError) as caught:
        read_huggingface(config_for(path, hf_columns=columns))
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"id": ["a", "a"], "text": ["One.", "Two."]}, ["row 1", "already used in row 0"]),
        ({"id": ["a", None], "text": ["One.", "Two."]}, ["row 1", "id is NoneType"]),
        ({"id": ["a", "b"], "text": ["One.", " "]}, ["row 1", "text is empty"]),
        ({"id": ["a", "b"], "text": ["One.", "\u200b"]}, ["row 1", "text is empty"]),
        ({"id": ["a", "b"], "text": ["One.", "\u3164"]}, ["row 1", "text is empty: U+3164"]),
        ({"id": ["a", "\ufeffa"], "text": ["One.", "Two."]}, ["row 1", "U+FEFF"]),
        ({"id": ["e\u0301", "\u00e9"], "text": ["One.", "Two."]}, ["row 1", "already used in row 0"]),
        ({"id": ["a", "b"], "text": [1.5, 2.5]}, ["row 0", "text is float"]),
    ],
)
def test_bad_rows_are_listed(tmp_path, columns, words):
    path = write_parquet(tmp_path / "x.parquet", columns)
    with pytest.raises(DatasetError) as caught:
        read_huggingface(config_for(path))
    for word in words:
        assert word in str(caught.value)


def test_recordings_inside_the_table_become_files(tmp_path):
    sound = [{"bytes": wav_bytes(), "path": "../../x.wav"}, {"bytes": None, "path": None}]
    path = write_parquet(tmp_path / "x.parquet", {**ROWS, "ref_audio": sound})
    first, second = load_prompts(config_for(path), 2)
    assert first.ref_audio.read_bytes() == wav_bytes()
    assert first.ref_audio.is_relative_to(tmp_path / "cache") and first.ref_audio.suffix == ".wav"
    assert second.ref_audio is None
    assert load_prompts(config_for(path), 1)[0].ref_audio == first.ref_audio


def test_audio_feature_is_not_decoded(tmp_path, datasets):
    features = datasets.Features({"id": datasets.Value("string"), "text": datasets.Value("string")})
    table = datasets.Dataset.from_dict({"id": ["a"], "text": ["One."]}, features=features)
    table = table.add_column("ref_audio", [{"bytes": wav_bytes(), "path": None}])
    table = table.cast_column("ref_audio", datasets.Audio())
    table.save_to_disk(str(tmp_path / "saved"))
    assert read_huggingface(config_for(tmp_path / "saved")).take(0).ref_audio.read_bytes() == wav_bytes()


def test_recordings_named_by_path_stay_in_the_folder(tmp_path):
    (tmp_path / "d/wavs").mkdir(parents=True)
    (tmp_path / "d/wavs/a.wav").write_bytes(wav_bytes())
    (tmp_path / "b.wav").write_bytes(wav_bytes())
    path = write_parquet(tmp_path / "d/x.parquet", {**ROWS, "ref_audio": ["wavs/a.wav", "../b.wav"]})
    source = read_huggingface(config_for(path))
    assert source.take(0).ref_audio == (tmp_path / "d/wavs/a.wav").resolve()
    with pytest.raises(DatasetError, match=r"row 1: recording: .*leaves the data folder"):
        source.take(1)


def test_recording_that_is_no_audio(tmp_path):
    path = write_parquet(tmp_path / "x.parquet", {**ROWS, "ref_audio": [b"junk", b"junk"]})
    with pytest.raises(DatasetError, match="row 0: the recording"):
        read_huggingface(config_for(path)).take(0)


def test_too_large_recording(tmp_path, monkeypatch):
    monkeypatch.setattr(huggingface, "MAX_AUDIO_BYTES", 10)
    sound = [{"bytes": wav_bytes(), "path": None}] * 2
    path = write_parquet(tmp_path / "x.parquet", {**ROWS, "ref_audio": sound})
    with pytest.raises(DatasetError, match="larger than"):
        read_huggingface(config_for(path)).take(0)


def test_broken_missing_and_empty_files(tmp_path):
    (tmp_path / "bad.parquet").write_bytes(b"not parquet at all")
    (tmp_path / "x.csv").write_text("id,text\n")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DatasetError, match=r"cannot be opened as local data: .*magic bytes"):
        read_huggingface(config_for(tmp_path / "bad.parquet"))
    for none in (tmp_path / "gone.parquet", "~nobody-of-that-name/x"):
        with pytest.raises(DatasetError, match="no file or folder"):
            read_huggingface(config_for(none))
    with pytest.raises(DatasetError, match=r"not one of \.parquet, \.arrow"):
        read_huggingface(config_for(tmp_path / "x.csv"))
    with pytest.raises(DatasetError, match=r"no \.parquet or \.arrow file"):
        read_huggingface(config_for(tmp_path / "empty"))
    with pytest.raises(DatasetError, match="hf_id is empty"):
        read_huggingface(config_for(""))


def test_a_table_without_rows(monkeypatch, datasets):
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: datasets.Dataset.from_dict({"id": [], "text": []}))
    with pytest.raises(DatasetError, match="has no rows"):
        read_huggingface(config_for("owner/set"))


def test_a_folder_with_a_script_runs_no_code(tmp_path):
    folder = tmp_path / "d"
    folder.mkdir()
    (folder / "d.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    with pytest.raises(DatasetError, match=r"no \.parquet or \.arrow file"):
        read_huggingface(config_for(folder))
    assert not (tmp_path / "ran").exists()


def test_unreachable_hub_is_one_clear_message(monkeypatch, datasets):
    def offline(*args, **kwargs):
        raise RuntimeError("Couldn't reach the hub") from OSError("no route to host")

    monkeypatch.setattr(datasets, "load_dataset", offline)
    with pytest.raises(DatasetError) as caught:
        read_huggingface(config_for("nobody/nothing", hf_split="validation"))
    message = str(caught.value)
    for word in ("nobody/nothing", "validation", "hub", "RuntimeError: Couldn't reach", "cause: OSError: no route"):
        assert word in message


def test_hub_id_never_trusts_remote_code(monkeypatch, datasets):
    seen = {}

    def old_load_dataset(path, split=None, trust_remote_code=None):
        seen.update(path=path, split=split, trust_remote_code=trust_remote_code)
        return datasets.Dataset.from_dict(ROWS)

    monkeypatch.setattr(datasets, "load_dataset", old_load_dataset)
    assert read_huggingface(config_for("owner/set")).ids == ("a", "b")
    assert seen == {"path": "owner/set", "split": "test", "trust_remote_code": False}
