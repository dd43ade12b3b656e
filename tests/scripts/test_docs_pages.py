"""The documentation's hook: a small repository is built, and what leads nowhere ends the build."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from mkdocs.__main__ import cli
from repository import ROOT


@pytest.fixture
def repository(tmp_path):
    """A repository with a page of each kind, and the real configuration and hook."""
    config = (
        (ROOT / "mkdocs.yml")
        .read_text(encoding="utf-8")
        .replace("scripts/docs_pages.py", str(ROOT / "scripts/docs_pages.py"))
    )
    config = re.sub(r"^nav:.*?(?=^not_in_nav)", "", config, flags=re.MULTILINE | re.DOTALL)
    for path, text in {
        "mkdocs.yml": config,
        "README.md": "# Front\n\n[start](docs/start.md#second) ![plot](reports/one/plots/a.png)\n",
        "CONTRIBUTING.md": "# Contributing\n\n[back](README.md)\n",
        "CHANGELOG.md": "# Changes\n",
        "code/tool.py": "print(1)\n",
        "docs/start.md": "# Start\n\n[report](../reports/one/report.md) and [tool](../code/tool.py)\n\n## Second\n\n"
        "```sh\n[code](nowhere.md)\n```\n",
        "docs/style.css": "",
        "reports/README.md": "# Results\n\n[one](one/report.md)\n",
        "reports/one/report.md": "# One\n\n[audio/a.wav](audio/a.wav) [plot](plots/a.png) ~~said~~\n",
        "reports/one/plots/a.png": "",
        "reports/runs/local/report.md": "# Not committed\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    return tmp_path


def built(repository: Path) -> Path:
    """The site, built by the command of ``make docs``; raises AssertionError if that fails."""
    command = re.search(r"/mkdocs (build.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    done = CliRunner().invoke(cli, [*command[1].split(), "--config-file", str(repository / "mkdocs.yml")])
    assert done.exit_code == 0, done.output
    return repository / "site"


def test_pages_reports_and_files_of_the_repository_are_in_the_site(repository):
    site = built(repository)
    front = (site / "index.html").read_text(encoding="utf-8")
    assert 'href="start.html#second"' in front and 'src="reports/one/plots/a.png"' in front
    start = (site / "start.html").read_text(encoding="utf-8")
    assert 'href="reports/one/report.html"' in start and 'href="code/tool.py"' in start
    assert "[code](nowhere.md)" in start
    assert (site / "code/tool.py").read_text(encoding="utf-8") == "print(1)\n"
    assert 'href="index.html"' in (site / "CONTRIBUTING.html").read_text(encoding="utf-8")
    assert not (site / "reports/runs").exists()


def test_a_report_may_name_a_recording_that_was_not_committed(repository):
    report = (built(repository) / "reports/one/report.html").read_text(encoding="utf-8")
    assert "audio/a.wav" in report and 'href="audio/a.wav"' not in report
    assert 'href="plots/a.png"' in report and "<del>said</del>" in report


@pytest.mark.parametrize(
    "text",
    [
        "[dead](nowhere.md)",
        "[dead anchor](#nowhere)",
        "[dead anchor of a page](start.md#third)",
        "[dead report](../reports/two/report.md)",
        "[a folder](../reports/one)",
        "[absolute](/start.md)",
        "[outside](../../outside.txt)",
        "{{ nowhere }}",
    ],
)
def test_what_leads_nowhere_ends_the_build(repository, text):
    (repository.parent / "outside.txt").write_text("not ours\n", encoding="utf-8")
    (repository / "docs/other.md").write_text(f"# Other\n\n{text}\n", encoding="utf-8")
    with pytest.raises(AssertionError):
        built(repository)
    (repository / "docs/other.md").write_text("# Other\n", encoding="utf-8")
    built(repository)


def test_no_page_loads_anything_from_the_network(repository):
    for page in built(repository).rglob("*.html"):
        assert not re.search(
            r"<(script|link|img|iframe)[^>]+(src|href)=[\"']?(https?:)?//", page.read_text(encoding="utf-8")
        )
