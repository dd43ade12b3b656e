"""``omni-bench ab`` from the command line to files and exit codes."""

from __future__ import annotations

import json
import shlex
import shutil

import pytest
from compare_factory import Factory
from fake_runner import FakeRunner

from omni_bench.commands import ab
from omni_bench.commands.cli import main
from omni_bench.errors import DatasetError, TargetError

CONFIGS = ["before.reference.predictor=reprefill", "after.reference.predictor=kv_cache", "scenario=smoke"]


@pytest.fixture
def runner(tmp_path, monkeypatch):
    """A function that puts a runner of hand-made runs in the place of the real one.

    ``pictures``: whether they are drawn, which takes seconds.
    """
    factory = Factory(tmp_path)
    monkeypatch.chdir(tmp_path)

    def put(*, pictures=False, **arguments):
        one = FakeRunner(factory, **arguments)
        if not pictures:
            monkeypatch.setattr("omni_bench.compare.plots.draw_comparison", lambda *_: [])
        monkeypatch.setattr(ab, "real_runs", one)
        return one

    return put


def test_an_improvement_exits_with_0_and_writes_everything(runner, tmp_path, capsys):
    fake = runner(slower=(1.2, 1.0), pictures=True)
    assert main(["ab", *CONFIGS, "seed=1", "--out", "study"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("IMPROVEMENT\nFaster: TTFP -") and "written:\nstudy/compare.md\n" in captured.out
    assert "after 2 pairs: TTFP -" in captured.err and "6 to 16 runs; how long" in captured.err
    names = [call.part_of.name for call in fake.calls]
    assert names[0] == "run 1/6, pair 1/3, before" and names[-1].startswith("run 6/6, pair 3/3, ")
    assert fake.calls[1].part_of.left().startswith("about ")
    written = (tmp_path / "study" / "compare.md").read_text()
    assert f"{shlex.join(['omni-bench', 'ab', *CONFIGS, 'seed=1'])}\n" in written
    commands = {call.arm: call.command for call in fake.calls}
    assert commands["before"] == (
        *("omni-bench", "run", "scenario=smoke", "output.save_audio=all", "reference.predictor=reprefill"),
    )
    assert json.loads((tmp_path / "study" / "compare.json").read_text())["outcome"] == "IMPROVEMENT"
    assert sorted(path.name for path in (tmp_path / "study").iterdir()) == [
        "ab.json",
        "compare.csv",
        "compare.json",
        "compare.md",
        "plots",
        "pull_request.md",
        "report.html",
        "runs",
    ]


def test_a_drawn_seed_is_in_the_command(runner, tmp_path, capsys):
    runner(slower=(1.0, 1.2))
    assert main(["ab", *CONFIGS, "pairs=1", "--for-pr"]) == 2
    (folder,) = (tmp_path / "reports/runs/ab").iterdir()
    seed = json.loads((folder / "ab.json").read_text())["seed"]
    assert f"pairs=1 seed={seed}\n" in capsys.readouterr().out


def test_options_of_the_environments_stand_anywhere_and_are_in_the_command(runner, tmp_path, capsys):
    runner()
    (tmp_path / "pins.txt").write_text("")
    words = [CONFIGS[0], "--share-packages", *CONFIGS[1:], "--constraints", "pins.txt", "pairs=1", "seed=1"]
    assert main(["ab", *words, "--for-pr"]) == 2
    command = ["omni-bench", "ab", "--share-packages", "--constraints", "pins.txt", *CONFIGS, "pairs=1", "seed=1"]
    assert f"{shlex.join(command)}\n" in capsys.readouterr().out


def test_ctrl_c_says_how_to_go_on_and_resume_does(runner, tmp_path, capsys):
    fake = runner(slower=(1.2, 1.0), ends={3: KeyboardInterrupt()})
    assert main(["ab", *CONFIGS, "pairs=2", "--out", "study"]) == 130
    folder = tmp_path / "study"
    assert f"omni-bench: error: interrupted; go on with: omni-bench ab --resume {folder}\n" in capsys.readouterr().err
    assert main(["ab", "--resume", str(folder)]) == 0
    assert len(fake.calls) == 5
    assert main(["ab", "--resume", str(folder)]) == 0, "an ended study shows its result"
    assert "this study has ended" in capsys.readouterr().err and len(fake.calls) == 5


def test_the_report_of_a_study_is_written_anew_from_its_runs(runner, tmp_path, capsys):
    fake = runner(slower=(1.2, 1.0), ends={3: KeyboardInterrupt()})
    assert main(["ab", *CONFIGS, "pairs=2", "--out", "study"]) == 130
    assert main(["report", "study", "--json"]) == 2
    captured, folder = capsys.readouterr(), tmp_path / "study"
    assert f"has not ended; go on with it: omni-bench ab --resume {folder}\n" in captured.err
    assert json.loads(captured.out)[0]["comparison"]["pairs"] == 1
    assert json.loads((folder / "ab.json").read_text())["ending"] is None
    assert main(["ab", "--resume", "study"]) == 0
    assert len(fake.calls) == 5
    written = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in (".md", ".json", ".csv")}
    for name in written.keys() - {"ab.json"}:
        (folder / name).unlink()
    (folder / "report.html").unlink()
    capsys.readouterr()
    assert main(["report", "study/ab.json"]) == 0
    assert capsys.readouterr().out.startswith("IMPROVEMENT\n") and (folder / "report.html").is_file()
    assert {name: (folder / name).read_bytes() for name in written} == written and len(fake.calls) == 5


def test_an_ended_study_takes_more_pairs(runner, tmp_path, capsys):
    fake = runner(slower=(1.2, 1.0))
    assert main(["ab", *CONFIGS, "pairs=2", "--out", "study"]) == 0
    assert f"for more pairs: omni-bench ab --resume {tmp_path / 'study'} pairs=5\n" in capsys.readouterr().err
    assert main(["ab", "--resume", "study", "pairs=2"]) == 2
    assert "pairs=2: more than 2, which this study has already" in capsys.readouterr().err
    assert main(["ab", "--resume", "study", "pairs=4", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["ending"]["outcome"] == "IMPROVEMENT" and document["comparison"]["pairs"] == 4
    assert document["comparison"]["alpha"] == 0.025, "it was looked at before"
    assert len(fake.calls) == 8 and fake.calls[4].part_of.name.startswith("run 5/8, pair 3/4, ")
    state = json.loads((tmp_path / "study" / "ab.json").read_text())
    assert state["extended_from"] == [2] and state["resumed"] == [] and state["plan"]["earlier_looks"] == 1
    written = (tmp_path / "study" / "compare.md").read_text()
    assert "Extended on request from 2 to 4 pairs, after the result was seen" in written
    assert "interrupted" not in written


def test_a_study_of_an_older_version_is_read_and_one_that_goes_on_takes_no_pairs(runner, tmp_path, capsys):
    runner(slower=(1.2, 1.0), ends={2: KeyboardInterrupt()})
    main(["ab", *CONFIGS, "pairs=2", "--out", "study"])
    assert main(["ab", "--resume", "study", "pairs=4"]) == 2
    assert "has not ended yet; first omni-bench ab --resume" in capsys.readouterr().err
    state = json.loads((tmp_path / "study" / "ab.json").read_text())
    del state["extended_from"], state["plan"]["earlier_looks"]
    (tmp_path / "study" / "ab.json").write_text(json.dumps(state | {"schema_version": "1.0"}))
    assert main(["ab", "--resume", "study"]) == 0


def test_a_study_without_its_runs_does_not_advise_to_go_on_with_it(runner, tmp_path, capsys):
    runner(slower=(1.2, 1.0))
    assert main(["ab", *CONFIGS, "pairs=2", "--out", "study"]) == 0
    shutil.rmtree(tmp_path / "study" / "runs")
    capsys.readouterr()
    assert main(["ab", "--resume", "study"]) == 3
    said = capsys.readouterr().err
    assert "01-" in said and "is gone" in said and "begin a new study: omni-bench ab" in said and "--resume" not in said


def test_infrastructure_exits_with_3(runner, capsys):
    dead = TargetError("the server died")
    runner(ends={1: dead, 2: dead})
    assert main(["ab", *CONFIGS, "--out", "study"]) == 3
    captured = capsys.readouterr()
    assert captured.out == "" and "the study ended early: pair 1 came to nothing in 2 attempts" in captured.err


def test_a_first_run_that_cannot_begin_leaves_no_folder(runner, tmp_path, capsys):
    def too_few(folder):
        folder.mkdir(parents=True)
        raise DatasetError("only 3 prompts")

    runner(ends={1: too_few})
    assert main(["ab", *CONFIGS, "--out", "study"]) == 2
    captured = capsys.readouterr()
    assert "only 3 prompts" in captured.err and "--resume" not in captured.err
    assert not (tmp_path / "study").exists()


@pytest.mark.parametrize(
    "arguments,message",
    [
        (["ab"], "nothing to compare"),
        (["ab", "before=nowhere"], "neither http"),
        (["ab", "before=git:main"], "not a git repository"),
        (["ab", *CONFIGS, "after.load.requests_per_level=1"], "would be compared"),
        (["ab", *CONFIGS, "reference.predictor=x"], "predictor"),
        (["ab", "--resume", "nowhere"], "is not the folder of a study"),
        (["ab", "--resume", "nowhere", "pairs=3", "seed=1"], "only pairs=N may stand"),
        (["ab", "--resume", "nowhere", "seed=1"], "only pairs=N may stand"),
        (["ab", *CONFIGS, "--out", "taken"], "is not an empty folder"),
    ],
)
def test_bad_words_exit_with_2(arguments, message, runner, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("")
    fake = runner()
    if "reference.predictor=x" in arguments:
        arguments = ["ab", "before=reference", "scenario=smoke", "reference.predictor=x"]
    assert main(arguments) == 2
    assert message in capsys.readouterr().err and fake.calls == []


def test_a_folder_with_a_study_is_gone_on_with_by_name(runner, capsys):
    runner(ends={1: KeyboardInterrupt()})
    main(["ab", *CONFIGS, "--out", "study"])
    assert main(["ab", *CONFIGS, "--out", "study"]) == 2
    assert "holds a study already; go on with it: omni-bench ab --resume" in capsys.readouterr().err


def test_another_version_does_not_go_on(runner, capsys, monkeypatch):
    runner(ends={1: KeyboardInterrupt()})
    main(["ab", *CONFIGS, "--out", "study"])
    monkeypatch.setattr(ab, "harness", lambda: {"version": "9.9", "commit": "f" * 40, "dirty": False})
    assert main(["ab", "--resume", "study"]) == 2
    assert "this is 9.9 (ffffffffffff)" in capsys.readouterr().err


def test_an_environment_that_is_gone_is_named(runner, tmp_path, capsys):
    runner(ends={1: KeyboardInterrupt()})
    main(["ab", *CONFIGS, "--out", "study"])
    state = json.loads((tmp_path / "study" / "ab.json").read_text())
    source = {"kind": "git", "place": "/r", "revision": "c" * 40, "title": "git:main (cccc)"}
    state["arms"]["after"] |= {"source": source}
    state["arms"]["after"]["config"]["target"]["python"] = str(tmp_path / "gone" / "python")
    (tmp_path / "study" / "ab.json").write_text(json.dumps(state))
    assert main(["ab", "--resume", "study"]) == 2
    assert "the environment of after (git:main (cccc)) is gone" in capsys.readouterr().err
