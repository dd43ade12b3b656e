"""The command line: help, versions, bad input. One subprocess; the rest in this process."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from omni_bench import __version__
from omni_bench.commands import doctor
from omni_bench.commands.cli import RUN_HELP, SUBCOMMANDS, build_parser, main
from omni_bench.errors import ConfigError
from omni_bench.run.config.compose import compose, group_options
from omni_bench.targets.reference import server_env


def exit_code(*arguments: str) -> int:
    try:
        return main(list(arguments))
    except SystemExit as end:  # argparse
        return end.code


def test_bad_input_in_a_process_of_its_own(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "omni_bench", "run", "scenario=qwen3_tts_c61"],
        cwd=tmp_path,
        env=server_env(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.splitlines() == [
        "omni-bench: error: unknown scenario 'qwen3_tts_c61'; did you mean 'qwen3_tts_c1'? "
        f"Valid: {', '.join(group_options('scenario'))}"
    ]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        (
            "from omni_bench.commands.cli import build_parser; build_parser().format_help()",
            "torch pandas numpy hydra aiohttp matplotlib rich",
        ),
        (
            "from omni_bench.commands.cli import main; main(['run', '--help'])",
            "torch pandas numpy hydra omegaconf rich",
        ),
        ("import omni_bench.run.orchestrate", "torch whisper datasets pandas matplotlib scipy.signal scipy.stats"),
    ],
    ids=["start", "help of run", "run"],
)
def test_no_heavy_package_is_loaded_before_it_is_needed(code, heavy):
    program = f"{code}; import sys; sys.exit('imported: ' + ' '.join(set('{heavy}'.split()) & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], env=server_env(), capture_output=True, text=True, check=False
    )
    assert done.stderr.strip() == "imported:"
    if "--help" in code:
        assert "load.requests_per_level=" in done.stdout and "exit codes:" in done.stdout.lower()


@pytest.mark.parametrize("locale", [{"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}, {}])
def test_a_character_that_the_terminal_lacks_is_escaped(tmp_path, locale):
    (tmp_path / "scenario").mkdir()
    (tmp_path / "scenario" / "mine.yaml").write_text(
        "# @package _global_\nscenario:\n  name: mine\n  description: '音声'\n", encoding="utf-8"
    )
    env = {name: value for name, value in server_env().items() if not name.startswith(("LC_", "LANG", "HOME"))}
    done = subprocess.run(
        [sys.executable, "-m", "omni_bench", "run", "--config-dir", str(tmp_path), "scenario=mine", "--cfg", "job"],
        env={**env, "PYTHONIOENCODING": "ascii", **locale},
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert rb"\u97f3\u58f0" in done.stdout


def test_version(capsys):
    assert exit_code("--version") == 0
    assert capsys.readouterr().out == f"omni-bench {__version__}\n"


def test_help_lists_every_subcommand(capsys):
    assert exit_code("--help") == 0
    out = capsys.readouterr().out
    assert all(re.search(rf"\n    {name}\s", out) for name in SUBCOMMANDS) and "exit codes" in out


def test_no_command_prints_the_help_and_is_a_usage_error(capsys):
    assert exit_code() == 2
    assert "usage: omni-bench" in capsys.readouterr().out


@pytest.mark.parametrize("command", [name for name in SUBCOMMANDS if name != "run"])
def test_the_help_of_a_subcommand_shows_an_example(command, capsys):
    assert exit_code(command, "--help") == 0
    assert re.search(rf"examples?:\n  omni-bench {command} ?", capsys.readouterr().out)


def test_every_command_with_a_result_has_json():
    def ways(parser):
        """The parsers of what can be done: of the actions of a command, where it has such."""
        inner = [one for one in parser._actions if isinstance(one.choices, dict)]
        return [way for one in inner for choice in one.choices.values() for way in ways(choice)] or [parser]

    without = [way.prog for way in ways(build_parser()) if "--json" not in way._option_string_actions]
    assert without == ["omni-bench run", "omni-bench serve"]  # run has its own parser; a server has no result


def test_list_as_json_and_a_reader_that_leaves(capsys, monkeypatch):
    assert main(["list", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["scenario"] == group_options("scenario") and found["bundled_sentences"]["seed_tts_mini/en"]
    assert found["reference.fault"]["slow_N"].endswith("N from 1 to 200") and found["target.chaos"]["cut"]
    with pytest.raises(ConfigError, match=r"of slow_N, N is .* from 1 to 200$"):
        compose(["scenario=smoke", "reference.fault=slow_400"])
    assert "--json" in RUN_HELP.read_text(encoding="utf-8")

    def gone(*_, **__):
        raise BrokenPipeError

    monkeypatch.setattr(doctor, "list_command", gone)
    stdout = sys.stdout
    assert main(["list"]) == 141 and sys.stdout is None
    monkeypatch.setattr(sys, "stdout", stdout)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bench"], "'bench' is no command; valid: ab, calibrate, compare"),
        (["serve", "--port", "99999"], "'99999': 0 (a free port) to 65535"),
        (["serve", "load.kind=x"], "'load.kind=x': serve takes reference=OPTION and reference.KEY=VALUE only"),
        (["serve", "port=8091"], "serve takes reference=OPTION and reference.KEY=VALUE only; did you mean --port?"),
        (["serve", "reference.chunk_frame=4"], "unknown key 'reference.chunk_frame'; did you mean 'chunk_frames'"),
        (["serve", "reference.chunk_frames=0"], "reference.chunk_frames=0: at least 1"),
        (["serve", "reference.checkpoint=/nowhere"], "reference.checkpoint='/nowhere': there is no folder /nowhere"),
        (["calibrate", "nope"], "'nope' is no KEY=VALUE; a scenario is named by scenario=NAME, one of qwen3_omni"),
        (["run", "scenario=zzz"], "unknown scenario 'zzz'; valid: qwen3_omni_random"),
        (["run", "load.concurency=[1]"], "unknown key 'load.concurency'; did you mean 'concurrency'"),
        (["run", "load.concurrency=1,2"], "a list has brackets: load.concurrency=[1,2]"),
        (["run", "--config-dir", "/nowhere"], "/nowhere"),
        (["run", "--no-such-flag"], "--no-such-flag: there is no such flag; valid: --cfg"),
        (["judge", "/nowhere", "asr.model=base"], "/nowhere is not a run folder"),
        (["report", "/nowhere"], "/nowhere is not a run folder: there is no such file or folder; runs lie in reports/"),
        (["report", "/etcc"], "did you mean /etc?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_message(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = exit_code(*arguments)
    out, err = capsys.readouterr()
    assert code == 2
    assert message in err and "omni-bench: error: " in err.replace("omni-bench serve: error", "omni-bench: error")
    assert "Traceback" not in err and "HYDRA_FULL_ERROR" not in err and out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "name", "found"),
    [
        (["ab", "a=1", "--share-packages", "b=2", "--out", "x", "c=3"], "words", ["a=1", "b=2", "c=3"]),
        (["serve", "a=1", "--port", "0", "b=2"], "overrides", ["a=1", "b=2"]),
        (["roofline", "--measure", "a=1", "--frames", "3", "b=2"], "overrides", ["a=1", "b=2"]),
        (["history", "add", "one", "--db", "x", "two"], "runs", ["one", "two"]),
    ],
)
def test_words_go_on_behind_an_option(words, name, found):
    assert getattr(build_parser().parse_args(words), name) == found


@pytest.mark.parametrize("words", [["compare", "a", "b", "c"], ["ab", "a=1", "--wrong", "b=2"], ["list", "more"]])
def test_what_no_command_knows_is_refused(words, capsys):
    with pytest.raises(SystemExit) as end:
        build_parser().parse_args(words)
    assert end.value.code == 2
    assert f"omni-bench {words[0]}: error: unrecognized arguments: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("override", "code", "message"),
    [
        ("asr.wer_limit=2", 2, "asr.wer_limit=2.0: a share from 0 to 1"),
        ("target=external", 2, "target.url is needed"),
        ("load.requests_per_level=5000", 2, "5004 prompts are needed"),
        ("dataset.locale=xx", 2, "xx"),
        ("asr.model=/nowhere/tiny.pt", 2, "there is no file /nowhere/tiny.pt"),
        ("reference.checkpoint=/nowhere", 2, "reference.checkpoint='/nowhere': there is no folder /nowhere"),
        ("reference.dtype=float16", 2, "reference.dtype='float16'"),
    ],
)
def test_a_bad_value_leaves_no_run_folder(override, code, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert exit_code("run", "scenario=smoke", override) == code
    err = capsys.readouterr().err
    assert message in err and "Traceback" not in err and "Error executing job" not in err
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert list((tmp_path / "reports" / "runs" / "smoke").iterdir()) == []


def test_a_port_in_use_is_infrastructure(capsys, tmp_path, monkeypatch):
    import socket

    monkeypatch.chdir(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert exit_code("run", "scenario=smoke", "asr=none", f"target.port={port}") == 3
        assert f"target.port={port}: already in use on 127.0.0.1" in capsys.readouterr().err
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == [], "nothing was measured, nothing is left"
        assert exit_code("run", "scenario=smoke", "asr=none", f"target.port={port}", "hydra.run.dir=asked") == 3
        assert (tmp_path / "asked" / "report.md").is_file(), "whoever names the folder looks there"
        assert exit_code("serve", "--port", str(port)) == 3
        assert f"port={port}: already in use on 127.0.0.1" in capsys.readouterr().err


def test_an_output_folder_that_cannot_be_made(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    assert exit_code("run", "scenario=smoke", f"output.root={tmp_path}/file/runs") == 3
    err = capsys.readouterr().err
    assert err.startswith("omni-bench: error: ") and "not a directory" in err and "Traceback" not in err


def test_ctrl_c_while_starting_up_is_one_line():
    code = (
        "import sys, builtins; real = builtins.__import__\n"
        "def interrupted(name, *rest):\n"
        "    if name == 'omni_bench.commands.cli': raise KeyboardInterrupt\n"
        "    return real(name, *rest)\n"
        "builtins.__import__ = interrupted\n"
        "from omni_bench.__main__ import main; sys.exit(main())"
    )
    done = subprocess.run([sys.executable, "-c", code], env=server_env(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "omni-bench: error: interrupted\n")


# --- Hydra's shell completion


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("omni-bench ", {"run", "serve", "doctor"}),
        ("omni-bench ser", {"serve"}),
        ("omni-bench run scenario=qwen3_tts_c1", {"scenario=qwen3_tts_c1", "scenario=qwen3_tts_c16"}),
        ("omni-bench run scen", {"scenario="}),
        ("omni-bench run load.", {"load.concurrency.", "load.requests_per_level="}),
        ("/usr/bin/omni-bench run target=ext", {"target=external"}),
    ],
)
def test_what_is_suggested(line, expected, monkeypatch, capsys):
    monkeypatch.setenv("COMP_LINE", line)
    assert main(["-sc", "query=bash"]) == 0
    assert expected <= set(capsys.readouterr().out.split())


def test_nothing_is_suggested_for_other_subcommands(monkeypatch, capsys):
    monkeypatch.setenv("COMP_LINE", "omni-bench report x")
    assert main(["-sc", "query=bash"]) == 0
    assert capsys.readouterr().out == ""


def test_the_script_is_for_this_program(monkeypatch, capsys):
    monkeypatch.delenv("COMP_LINE", raising=False)
    assert main(["run", "-sc", "install=bash"]) == 0
    assert capsys.readouterr().out.rstrip().endswith("hydra_bash_completion omni-bench")


def test_a_closed_output_is_no_bug(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout", None)
    assert main(["list"]) == 0
    assert capsys.readouterr().err == ""
