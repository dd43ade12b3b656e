"""README and docs: their commands can be typed, and their figures are those of the committed results."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
from functools import cache
from pathlib import Path

import docs_pages
import pytest
from repository import ROOT

from omni_bench.commands.cli import SUBCOMMANDS, build_parser
from omni_bench.compare.ab.words import more_pairs, read_words
from omni_bench.errors import ConfigError
from omni_bench.run.config.compose import compose

PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "reports/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
NO_JOBLIB = importlib.util.find_spec("joblib") is None
MAKE_TARGETS = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def commands(page: Path) -> list[list[str]]:
    """The commands of a page, from its code blocks and from its text, as words."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [
        line
        for block in re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        for line in block.splitlines()
    ]
    lines += re.findall(r"`((?:omni-bench|make|python) [^`]+)`", text)
    return [shlex.split(line.replace(".venv/bin/", ""), comments=True) for line in lines]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_of_a_page_can_be_typed(page):
    for program, *words in filter(None, commands(page)):
        if program == "make":
            assert words[0] in MAKE_TARGETS
        elif program in ("python", "python3"):
            script = Path(words[0])
            assert (ROOT / script).is_file() if script.suffix else importlib.util.find_spec(words[1]) is not None
        elif program == "omni-bench":
            check(*words)


@cache  # pages repeat each other, and to compose a configuration takes a quarter of a second
def check(command: str, *words: str) -> None:
    """Parse a command line of omni-bench; its configuration is composed and checked, and nothing runs.

    A launcher of Hydra that is not installed (extra launchers) is left out.
    """
    words = tuple(word for word in words if not (word.startswith(("hydra/launcher", "hydra.launcher")) and NO_JOBLIB))
    assert command in SUBCOMMANDS
    if command == "run" and words[:1] == ("--resume",):
        assert len(words) == 2  # a folder, and nothing else
    elif command == "run":
        sweep = "-m" in words
        assert set(word for word in words if word.startswith("-")) <= {"-m", "--cfg", "--help", "--config-dir"}
        if "--config-dir" not in words:
            compose([word.partition(",")[0] if sweep else word for word in words if "=" in word])
    elif words:
        parsed = build_parser().parse_args([command, *words])
        if command == "ab" and parsed.words:
            (more_pairs if parsed.resume else read_words)(parsed.words)
        elif overrides := getattr(parsed, "overrides", None):
            compose([*overrides, *([] if command in ("doctor", "judge") else ["asr=none"])])


def test_commands_are_found_and_wrong_ones_refused(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "`make bench` and\n\n```sh\nomni-bench run scenario=smoke  # a comment\n\n.venv/bin/omni-bench list\n```\n"
    )
    assert [words for words in commands(page) if words] == [
        ["omni-bench", "run", "scenario=smoke"], ["omni-bench", "list"], ["make", "bench"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        "run scenario=smok",
        "run load.concurency=[1]",
        "compare one",
        "run --resume",
        "serve reference.chunk_frame=1",
        "ab before",
        "bench x",
    ],
)
def test_a_command_that_cannot_be_typed_is_noticed(line):
    with pytest.raises((ConfigError, SystemExit, AssertionError)):
        check(*line.split())


class TestFiguresOfTheReadme:
    README = (ROOT / "README.md").read_text(encoding="utf-8")

    def test_the_table_is_that_of_the_report(self):
        rows = docs_pages.levels(ROOT, "reports/qwen3_tts_cpu").splitlines()
        assert len(rows) == 7
        for row in (rows[0], *rows[2:]):
            assert f"{row}\n" in self.README

    def test_the_speed_on_a_card(self):
        run = json.loads((ROOT / "reports/qwen3_tts_1_7b_h200/http/run.json").read_text(encoding="utf-8"))
        assert (
            f"reaches {run['levels'][-1]['metrics']['audio_per_s']['mean']:.0f} audio seconds per second" in self.README
        )

    def test_the_faults_caught(self):
        result = json.loads((ROOT / "reports/selftest/selftest.json").read_text(encoding="utf-8"))
        faults = [case for case in result["cases"] if case["kind"] != "clean"]
        caught, clean = sum(case["ok"] for case in faults), result["clean"]
        assert f"{caught} of {len(faults)} faults caught, no alarm in {clean['runs']} clean runs" in self.README
        assert clean["alarming_runs"] == 0

    def test_it_is_a_front_page(self):
        assert len(self.README.splitlines()) <= 120
