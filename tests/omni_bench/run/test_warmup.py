"""The warm-up's requests on disk: what is written is what is read, and what no run can have written is named."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest
import run_factory as runs

from omni_bench.errors import StoreError
from omni_bench.records.prompt import Prompt
from omni_bench.records.run_folder import RunFolder
from omni_bench.run.warmup import WarmupRequest, read_warmup, warmup_requests, write_warmup

REQUEST = WarmupRequest("c2-w0000", "p1", 2, 10, 20, "Spoken text.", "Reference text.", "en")


def test_the_reference_text_is_there_only_if_it_was_sent():
    timeline = runs.timeline("w0", concurrency=2)
    prompts = {timeline.prompt_id: Prompt(timeline.prompt_id, "Spoken text.", "Reference text.", None, "en")}
    (sent,) = warmup_requests([timeline], prompts, with_reference=True)
    (unsent,) = warmup_requests([timeline], prompts, with_reference=False)
    assert sent.ref_text == "Reference text." and unsent == replace(sent, ref_text=None)
    assert (sent.started_ns, sent.finished_ns) == (timeline.started_ns, timeline.ended_ns)


def test_what_is_written_is_read(tmp_path):
    folder = RunFolder(tmp_path)
    assert read_warmup(folder) == []
    write_warmup(folder, [])
    assert not folder.warmup_jsonl.exists()
    requests = [REQUEST, replace(REQUEST, ref_text=None)]
    write_warmup(folder, requests)
    assert read_warmup(folder) == requests


@pytest.mark.parametrize(
    ("field", "value"), [("started_ns", "10"), ("concurrency", True), ("text", None), ("ref_text", 7)]
)
def test_a_wrong_value_is_named_with_its_line(tmp_path, field, value):
    folder = RunFolder(tmp_path)
    lines = [asdict(REQUEST), {**asdict(REQUEST), field: value}]
    folder.warmup_jsonl.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(StoreError, match=rf"warmup.jsonl, line 2: {field} is "):
        read_warmup(folder)
