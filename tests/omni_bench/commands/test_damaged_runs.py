"""Single values of a stored run's files damaged: every command that reads them says which, or goes on."""

from __future__ import annotations

import errno
import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from heard_run import make_heard_run
from repository import DATA

from omni_bench.commands.cli import main
from omni_bench.report.write import write_report

OLD_RUNS = DATA / "old_runs"
FILES = ("run.json", "requests.jsonl", "utterances.jsonl", "warmup.jsonl", "solo.jsonl", "parity.jsonl")
BAD = ("x", "\ud800", "\x00\x1b", 1.5, True, -1, 2**63, 1e308, [None], [[]], {"x": {"\ud800": [1]}}, None)
COMMANDS = ("report", "compare", "gate", "history")


def damage(file: Path, place: tuple, value: Any) -> None:
    """Put ``value`` at ``place`` of a JSON file, or of the first line of a .jsonl file."""
    lines = file.read_text().split("\n") if file.suffix == ".jsonl" else [file.read_text()]
    document = json.loads(lines[0])
    inside = document
    for part in place[:-1]:
        inside = inside[part]
    inside[place[-1]] = value
    file.write_text("\n".join([json.dumps(document), *lines[1:]]))


def places(value: Any, place: tuple = ()):
    """Where the values of a document are, of lists the first alone."""
    inside = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for name, one in inside:
        yield (*place, name)
        yield from places(one, (*place, name))


def run_command(name: str, sound: Path, damaged: Path, folder: Path) -> int:
    database = ["--db", str(folder / f"{random.random()}.sqlite")]
    match name:
        case "compare":
            return main(["compare", str(sound), str(damaged)])
        case "gate":
            return main(["gate", str(damaged), *database, "--out", str(folder)])
        case "history":
            return main(["history", *database, "add", str(damaged)]) or main(["history", *database, "show"])
        case _:
            return main([name, str(damaged)])


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    shutil.copytree(OLD_RUNS / "parity_words", tmp_path / "run")
    damage(tmp_path / "run" / "run.json", ("provenance", "config", "output", "plots"), False)
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("file", "place", "value", "commands", "message"),
    [
        ("utterances.jsonl", ("no_speech_prob",), "x", "report compare", "no_speech_prob is 'x'; expected float"),
        ("utterances.jsonl", ("voice_onset",), [], "report compare", "voice_onset is []; expected float"),
        ("requests.jsonl", ("audio",), "\ud800", "report compare", r"audio is '\ud800'; must be a path"),
        ("requests.jsonl", ("error",), {"kind": 1, "message": ""}, "report compare", "error.kind is 1; expected str"),
        ("requests.jsonl", ("shared_audio",), [{"source": "a"}], "report compare", "missing required field"),
        ("run.json", ("provenance", "config", "load"), 1.5, " ".join(COMMANDS), "load is 1.5; expected object"),
        ("run.json", ("provenance", "config", "client"), 1.5, " ".join(COMMANDS), "client is 1.5; expected object"),
        ("run.json", ("provenance", "config", "target"), [None], " ".join(COMMANDS), "target is [None]; expected"),
        (
            "run.json",
            ("provenance", "config", "load", "concurrency"),
            [[]],
            " ".join(COMMANDS),
            "load.concurrency[0] is []; expected int",
        ),
        (
            "run.json",
            ("provenance", "target", "conformance"),
            {"streams": {}},
            " ".join(COMMANDS),
            "conformance.streams: {} is not of type 'boolean'",
        ),
        ("run.json", ("provenance", "target", "description", "environment"), 5, " ".join(COMMANDS), "environment: 5 "),
        (
            "run.json",
            ("levels", 0, "metrics", "rtf", "n"),
            2**63,
            " ".join(COMMANDS),
            "metrics.rtf.n: 9223372036854775808 is not of type 'integer'",
        ),
        ("run.json", ("levels", 0, "metrics", "rtf", "p50"), 2**64 - 1, "gate history", "metrics.rtf.p50: 184467"),
    ],
)
def test_file_field_and_value_are_named(damaged, tmp_path, capsys, file, place, value, commands, message):
    damage(damaged / file, place, value)
    for name in commands.split():
        assert run_command(name, OLD_RUNS / "parity_words", damaged, tmp_path) in (2, 3)
        err = capsys.readouterr().err
        line = ", line 1: " if file.endswith(".jsonl") else ""
        assert f"{damaged / file}{line}" in err and message in err and "internal error" not in err


def test_half_characters_of_a_server_go_into_the_history(damaged, tmp_path, capsys):
    damage(damaged / "run.json", ("provenance", "target", "description", "health", "model"), "m\ud800")
    assert run_command("history", damaged, damaged, tmp_path) == 0
    assert r"m\ud800" in capsys.readouterr().out


@pytest.mark.parametrize("seed", range(4))
def test_no_damaged_value_is_an_internal_error(tmp_path, capsys, seed):
    """A small sample; each of the four seeds damages another run."""
    chosen = random.Random(seed)
    sound = OLD_RUNS / ("parity_words", "rate_search", "open_loop_late", "invalid_answer")[seed]
    for number in range(25):
        run = tmp_path / str(number)
        shutil.copytree(sound, run)
        damage(run / "run.json", ("provenance", "config", "output", "plots"), False)
        file = run / chosen.choice([name for name in FILES if (run / name).is_file()])
        text = file.read_text()
        document = json.loads(text.split("\n")[0] if file.suffix == ".jsonl" else text)
        place, value = chosen.choice(list(places(document))), chosen.choice(BAD)
        damage(file, place, value)
        name = chosen.choice(COMMANDS)
        code = run_command(name, sound, run, tmp_path)
        err = capsys.readouterr().err
        assert "internal error" not in err, (name, file.name, place, value)
        assert code in (0, 1) or name == "gate" or err.startswith("omni-bench: error: ")


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("run.json", "folder", "run.json is a folder, and must be a file; make the run again"),
        ("run.json", "device", "run.json is a link to a device or a pipe, and must be a file; make the run again"),
        ("run.json", "dead link", "run.json is a link to nothing"),
        ("run.json", "[1", "run.json is not JSON: "),
        ("requests.jsonl", "5\n", "requests.jsonl, line 1: not a JSON object: b'5'; make the run again"),
        ("utterances.jsonl", "folder", "utterances.jsonl is a folder, and must be a file; remove it and judge the run"),
        (
            "parity.jsonl",
            "device",
            "parity.jsonl is a link to a device or a pipe, and must be a file; ",
        ),
        ("warmup.jsonl", "5\n", "line 1: not a JSON object: b'5'; remove it: the report does without it"),
    ],
)
def test_what_is_no_file_of_a_run_is_named_with_what_to_do(damaged, capsys, name, kind, message):
    path = damaged / name
    path.unlink(missing_ok=True)
    match kind:
        case "folder":
            path.mkdir()
        case "device":
            path.symlink_to("/dev/zero")
        case "dead link":
            path.symlink_to("nowhere")
        case _:
            path.write_text(kind)
    assert main(["report", str(damaged)]) == 3
    assert message in capsys.readouterr().err


def test_recordings_that_are_gone_are_said(tmp_path, capsys):
    make_heard_run(tmp_path / "run").release()
    shutil.rmtree(tmp_path / "run" / "audio")
    (tmp_path / "run" / "audio").write_text("x")
    write_report(tmp_path / "run", plots=False)
    said = capsys.readouterr().err
    assert "recordings are not there, such as audio/c4-0000.wav" in said and len(said.splitlines()) == 1


def test_a_run_that_cannot_be_written_to_is_said(damaged, capsys, monkeypatch):
    def refuse(self, *arguments, **options):
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "write_bytes", refuse)
    monkeypatch.setattr(Path, "write_text", refuse)
    assert main(["report", str(damaged)]) == 3
    said = capsys.readouterr().err
    assert f"cannot write {damaged}" in said and "check the permissions" in said and "internal error" not in said
