"""The faults for a real vLLM-Omni, and what is read off the runs that they are injected in."""

from __future__ import annotations

import importlib.util
import sys
import tomllib

import pytest
import torch
from repository import ROOT

from omni_bench.accuracy.signal.audio_faults import INVALID_REASONS
from omni_bench.records.invalid_reason import Code
from reference_impl.faults.catalogue import FAULTS as CATALOGUE

FOLDER = ROOT / "scripts" / "real_server"


def load(path):
    """A module of a folder that is no package of ours."""
    spec = importlib.util.spec_from_file_location(f"real_server_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


faults = load(FOLDER / "plugin" / "omni_bench_vllm_plugin" / "faults.py")
run_faults = load(FOLDER / "run_faults.py")
NAMED = tomllib.loads((FOLDER / "faults.toml").read_text(encoding="utf-8"))


def test_each_fault_has_detectors_that_exist_and_a_namesake_in_the_catalogue():
    assert list(NAMED) == list(faults.FAULTS) and set(NAMED) <= set(CATALOGUE)
    for name, fault in NAMED.items():
        assert fault["detectors"] and set(fault["detectors"]) <= {*Code, *INVALID_REASONS}
        assert fault["source"] == CATALOGUE[name].source


def test_nothing_is_broken_unless_the_environment_says_so(monkeypatch):
    monkeypatch.delenv(faults.VARIABLE, raising=False)
    faults.install()
    monkeypatch.setenv(faults.VARIABLE, "typo")
    with pytest.raises(ValueError, match="valid: shared_proj_buf, "):
        faults.install()


@pytest.fixture
def classes():
    """Stand for vLLM-Omni's two: a frame of calls over embeddings [B, 17, 1], and what each call reads."""

    def read(self, embeds, position_ids):
        self.seen.append(embeds.clone())

    body = type("Body", (), {"forward": read, "seen": []})

    def frame(self, embeds):
        predictor, written = body(), torch.zeros_like(embeds)
        written[:, 0] = embeds[:, 0]
        for step in range(1, 16):
            written[:, step] = embeds[:, step]
            predictor.forward(written, None)

    return type("Wrapper", (), {"forward": frame}), body


def test_a_shared_buffer_gives_all_but_the_newest_position_of_the_last_request(classes):
    wrapper, body = classes
    faults._SharedBuffer(wrapper, body)
    embeds = torch.arange(2.0)[:, None, None] + torch.arange(17.0)[None, :, None] * 10
    wrapper().forward(embeds)
    wrapper().forward(embeds)
    assert len(body.seen) == 30 and torch.equal(body.seen[15][:, :2], embeds[:, :2])
    assert body.seen[18][:, :5, 0].tolist() == [[1, 11, 21, 31, 40], [1, 11, 21, 31, 41]]


def test_stale_rows_hold_the_frame_before_where_nothing_is_predicted_yet(classes):
    wrapper, body = classes
    faults._StaleRows(wrapper, body)
    wrapper().forward(torch.full((1, 17, 1), 5.0))
    wrapper().forward(torch.full((1, 17, 1), 7.0))
    assert body.seen[0][0, :3, 0].tolist() == [5, 5, 0]
    assert body.seen[15][0, :3, 0].tolist() == [7, 7, 5]


def chunk(value, length=3):
    return torch.full((length,), float(value))


def made(kind, **state):
    """A fault of Code2Wav without vLLM-Omni."""
    fault = object.__new__(kind)
    vars(fault).update(state)
    return fault


def values(sent):
    return [one.tolist() for one in sent]


def test_one_buffer_takes_the_chunks_of_a_step():
    sent = made(faults._PinnedAlias).chunks([chunk(1), chunk(2, 2)], ["a", "b"])
    assert values(sent) == [[2, 2, 1], [2, 2]]


def test_the_last_chunks_go_to_another_request():
    fault = made(faults._NeighbourSlot, _held={}, _late=[])
    assert values(fault.chunks([chunk(1, 1)], ["a"])) == [[1]]
    assert values(fault.chunks([chunk(2)], ["a"])) == [[]]
    assert values(fault.chunks([chunk(3)], ["a"])) == [[2, 2, 2]]
    assert values(fault.chunks([chunk(4, 2), chunk(7, 1)], ["a", "b"])) == [[], [7]]
    assert values(fault.chunks([chunk(8)], ["b"])) == [[3, 3, 3, 4, 4]]
    assert values(fault.chunks([chunk(9)], ["b"])) == [[8, 8, 8]]


def test_a_last_chunk_is_padded_with_the_one_before():
    fault = made(faults._PaddingTail, _before={})
    assert values(fault.chunks([chunk(0, 1)], ["a"])) == [[0]]
    assert values(fault.chunks([chunk(1, 4)], ["a"])) == [[1, 1, 1, 1]]
    assert values(fault.chunks([chunk(2, 1)], ["a"])) == [[2, 1, 1, 1]]


def test_what_was_found_are_codes_and_the_names_of_audio_faults():
    level = {"invalid_reasons": [{"code": "wer"}, {"code": "invalid_audio"}], "invalid": {"clicks": 2}}
    run = {"invalid_reasons": [{"code": "server_broke"}], "levels": [level]}
    assert run_faults.found(run) == ["clicks", "server_broke", "wer"]


def test_the_matrix_says_what_was_missed_and_what_alarmed():
    found = {"wer": 0.5, "cross_talk": None, "valid": False, "found": ["wer"]}
    table = run_faults.table(
        [{"fault": "stale_rows", **found}, {"fault": "neighbour_slot", **found}, {"fault": "clean", **found}], NAMED
    )
    lines = table.splitlines()[2:]
    assert "| yes | 50.0% | n/a |" in lines[0] and "| **no** |" in lines[1] and "| **alarm** |" in lines[2]
