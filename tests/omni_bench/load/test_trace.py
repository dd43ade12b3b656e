"""Arrival times from a file."""

import json

import pytest

from omni_bench.errors import ConfigError
from omni_bench.load import trace
from omni_bench.load.trace import read_trace

GOOD_NS = (0, 500_000_000, 500_000_000, 2_000_000_000)


def write(folder, name, text):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_json_lines_and_csv_give_the_same_arrivals(tmp_path):
    times = [100.0, 100.5, 100.5, 102.0]
    lines = "\n\n".join(json.dumps({"id": i, "offset_s": at}) for i, at in enumerate(times))
    rows = "\ufeffid, timestamp\n" + "".join(f"{i}, {at}\n" for i, at in enumerate(times))
    assert read_trace(write(tmp_path, "a.jsonl", lines)) == GOOD_NS
    assert read_trace(write(tmp_path, "a.csv", rows)) == GOOD_NS


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.jsonl", '{"offset_s": 0}\n{"offset_s": }\n', "line 2: is not JSON"),
        ("a.jsonl", '{"offset_s": 0}\n\n[1]\n', "line 3: is not an object but list"),
        ("a.jsonl", '{"offset_s": 0}\n{"offset_s": true}\n', "line 2: offset_s is True; must be a number"),
        ("a.jsonl", '{"offset_s": 0}\n{"offset_s": NaN}\n', "line 2: offset_s is nan; must be a number"),
        ("a.jsonl", '{"at": 0}\n', "line 1: has none of the columns offset_s"),
        ("a.jsonl", '{"offset_s": 0}\n{"at": 1}\n', "line 2: has no 'offset_s'; it has at"),
        ("a.csv", "offset_s\n0\nsoon\n", "line 3: offset_s is 'soon'; must be a number"),
        ("a.csv", "offset_s\n2\n1\n", "line 3: offset_s is 1, before the 2 of the row above"),
        ("a.csv", "offset_s\n0\n1e9\n", "line 3: offset_s is more than 604800 s after"),
        ("a.csv", "id,offset_s\n1,0\n2\n", "line 3: offset_s is None"),
        ("a.csv", "", "0 arrivals; at least two"),
        ("a.csv", "offset_s\n3\n3\n", "2 arrivals; at least two at different times"),
    ],
)
def test_an_error_names_file_and_line(tmp_path, name, text, message):
    path = write(tmp_path, name, text)
    with pytest.raises(ConfigError) as error:
        read_trace(path)
    assert f"load.trace={path}" in str(error.value) and message in str(error.value)


def test_what_cannot_be_read(tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="cannot be read \\(No such file"):
        read_trace(tmp_path / "none.csv")
    with pytest.raises(ConfigError, match="not a file"):
        read_trace(tmp_path)
    (tmp_path / "b.csv").write_bytes(b"offset_s\n\xff\n")
    with pytest.raises(ConfigError, match="not UTF-8 text"):
        read_trace(tmp_path / "b.csv")
    path = write(tmp_path, "a.csv", "offset_s\n0\n1\n2\n")
    monkeypatch.setattr(trace, "MAX_TRACE_ROWS", 2)
    with pytest.raises(ConfigError, match="line 4: is beyond the limit of 2 rows"):
        read_trace(path)
    monkeypatch.setattr(trace, "MAX_TRACE_BYTES", 5)
    with pytest.raises(ConfigError, match="15 bytes; at most 5"):
        read_trace(path)
