"""Runs of strangers: whatever their texts hold, no command obeys it, drowns in it, or takes it for a line of ours."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from heard_run import VICTIM, make_heard_run
from repository import DATA

from omni_bench.commands.cli import main
from omni_bench.errors import StoreError
from omni_bench.foreign_text import MAX_PAGE_CHARS
from omni_bench.records.schema import validate_run

EVIL = (
    "evil\n::error::pwned\n::set-output name=x::y\r\n\x1b[2J\x1b]0;t\x07\x9b | a | b |\n# H1 [l](http://e.vil) ![i](u) "
    "<script>alert(1)</script> <!-- @octocat `code` \u202e ]]> \x00 \ufffe ../../tmp/pwn "
)
TEXTS = ("text", "prompt_id", "reference", "hypothesis", "reference_normal", "hypothesis_normal", "heard", "words")
ACTIVE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufffe]")
OBEYED = re.compile(r"^\s*(?:::|##\[|# H1)", re.MULTILINE)
FENCED = re.compile(r"^(```+).*?^\1$", re.MULTILINE | re.DOTALL)


def places(value: Any, place: tuple = ()):
    """Where the values of a document are."""
    for name, one in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*place, name), value
        yield from places(one, (*place, name))


def make_hostile(path: Path, evil: str, *, plots: bool) -> Path:
    """A run whose every text is ``evil`` that can be: all that the schema takes, and the texts of the lines."""
    make_heard_run(path, audio=False).release()
    for name in ("parity.jsonl", "solo.jsonl"):
        (path / name).unlink()
    run = json.loads((path / "run.json").read_text())
    told = dict.fromkeys(("version", "commit", "device", "device_name", "model", "fault", "weights"), evil)
    target = run["provenance"]["target"]
    target["description"] |= {"health": told | {evil: evil}, "models": {"data": [{"id": evil}]}}
    target["conformance"] = {"warnings": [evil] * 30, "content_type": evil, "seed": evil}
    run["provenance"]["hardware"]["gpus"] = [{"name": evil, "driver": evil}]
    config = json.loads((DATA / "old_runs/parity_words/run.json").read_text())["provenance"]["config"]
    config["client"]["model"], config["output"]["plots"] = evil, plots
    run["provenance"]["config"] = {}
    for place, inside in list(places(run)):
        name, value = place[-1], inside[place[-1]]
        if not isinstance(value, str) or name in ("schema_version", "code", "kind"):
            continue
        inside[name] = evil
        try:
            validate_run(run, "")
        except StoreError:
            inside[name] = value
    run["provenance"]["config"] = config
    (path / "run.json").write_text(json.dumps(run))
    for name in ("requests.jsonl", "utterances.jsonl", "cross_talk.jsonl"):
        lines = []
        for record in map(json.loads, (path / name).read_text().splitlines()):
            record |= {key: evil for key in TEXTS if isinstance(record.get(key), str)}
            record.pop("alignment", None)
            if record.get("error"):
                record["error"]["message"] = evil
            lines.append(json.dumps(record).replace(VICTIM, json.dumps(VICTIM + EVIL)[1:-1]))
        (path / name).write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("times", [1, 500])
def test_no_text_of_a_stranger_is_obeyed(tmp_path, capfd, monkeypatch, times):
    before, after = (make_hostile(tmp_path / name, EVIL * times, plots=times == 1) for name in ("before", "after"))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "step.md"))
    history = ("history", "--db", str(tmp_path / "h.sqlite"))
    commands = {
        ("report", str(before)): 1,
        ("report", str(after)): 1,
        ("compare", str(before), str(after), "--force", "--out", str(tmp_path / "compared")): 1,
        ("gate", str(before), "--db", history[2], "--out", str(tmp_path / "gate")): 3,
        (*history, "add", str(after)): 0,
        (*history, "baseline", "set", str(before), "--note", EVIL * times): 2,  # an invalid run is no baseline
        (*history, "show"): 0,
        (*history, "baseline", "show"): 0,
        ("export", str(before), "--csv", str(tmp_path / "csv")): 0,
        ("judge", str(before), f"asr.model={EVIL}"): 2,
    }
    for command, code in commands.items():
        assert main(list(command)) == code, command
        for shown in capfd.readouterr():
            assert not ACTIVE.search(shown) and not OBEYED.search(shown), command
            assert len(shown) < 20_000 and len(shown.splitlines()) < 20_000 / 80, command
    assert main(["gate", str(before), "--db", history[2], "--out", str(tmp_path / "gate")]) == 3  # a second of the step
    assert main(["compare", str(before), str(after), "--force", "--for-pr"]) == 1
    pasted = capfd.readouterr().out
    assert len(pasted) < MAX_PAGE_CHARS + 20_000 and not ACTIVE.search(pasted)
    pages = [tmp_path / "step.md", *tmp_path.rglob("*.md"), *tmp_path.rglob("*.html"), *tmp_path.rglob("*.csv")]
    assert len(pages) > 10
    for page in [*pages, *tmp_path.rglob("*.svg")]:
        text = page.read_text(encoding="utf-8")
        assert not ACTIVE.search(text), page
        if page.suffix == ".md":
            assert len(text) <= MAX_PAGE_CHARS and not OBEYED.search(FENCED.sub("", text)), page
            assert "<script" not in FENCED.sub("", text) and "@octocat" not in FENCED.sub("", text), page
        if page.suffix == ".html":
            assert "<script>alert" not in text, page
    junit = (tmp_path / "gate" / "junit.xml").read_bytes()
    assert len(junit) < 100_000 and ElementTree.fromstring(junit).get("name") is None


def test_annotations_are_our_own(tmp_path, capsys, monkeypatch):
    run = make_hostile(tmp_path / "run", EVIL * 50, plots=False)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    assert main(["gate", str(run), "--db", str(tmp_path / "h.sqlite"), "--out", str(tmp_path / "gate")]) == 3
    commands = [line for line in capsys.readouterr().out.splitlines() if line.startswith("::")]
    assert commands and all(re.match(r"::(error|warning|notice) title=[^:,]+::", line) for line in commands)
    assert not any("pwned" in line.partition("title=")[0] or len(line) > 8000 for line in commands)
