"""The mkdocs hook: pages from outside ``docs/``, links to files of the repository, and what is made from code.

- ``README.md`` is the front page; ``CONTRIBUTING.md``, ``CHANGELOG.md`` and what ``reports/`` holds are pages too.
- A link to any other file of the repository puts a copy of it into the site. A link to a file that does not exist stays
  as it is, so that mkdocs warns, which ends a strict build. Only the ``report.md`` of a run may name files that were
  not committed with it (recordings): there the text stays and the link goes.
- A line ``{{ NAME ARGUMENT }}`` of a page is replaced by what the function ``NAME`` of :data:`GENERATED` returns.
"""

from __future__ import annotations

import ast
import json
import posixpath
import re
import tomllib
from collections.abc import Callable, Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from omegaconf import MISSING

from omni_bench.export.columns import FIGURES, FRAMES
from omni_bench.metrics.definitions import METRICS
from omni_bench.metrics.metric import Scope
from omni_bench.records.invalid_reason import Code
from omni_bench.run.config.compose import GROUPS, group_options
from omni_bench.run.config.keys import config_keys, groups, written

FRONT_PAGE = "README.md"
PAGES_OUTSIDE = {FRONT_PAGE: "index.md", "CONTRIBUTING.md": "CONTRIBUTING.md", "CHANGELOG.md": "CHANGELOG.md"}
"""Pages beside ``docs/`` and ``reports/``: their path in the repository and in the site."""

LINK = re.compile(r"(?P<image>!?)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^()\s]+)\)")
PLACEHOLDER = re.compile(r"^\{\{ (?P<name>\w+) ?(?P<argument>[^{}]*?) \}\}$", re.MULTILINE)
FENCE = re.compile(r"^(```.*?^```)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and plots from outside ``docs/``."""
    root = repository(config)
    for path, uri in PAGES_OUTSIDE.items():
        add(files, config, root / path, uri)
    for path in sorted((root / "reports").rglob("*")):
        inside = path.relative_to(root)
        if path.suffix in (".md", ".png") and inside.parts[1] != "runs":
            add(files, config, path, inside.as_posix())
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The page with its links resolved and its placeholders filled in."""
    source = Path(page.file.abs_src_path or "").resolve()
    uri, root = page.file.src_uri, repository(config)
    parts = FENCE.split(markdown)  # every second part is code, which stays as it is
    parts[::2] = [LINK.sub(lambda found: resolved(found, source, uri, config, files), part) for part in parts[::2]]
    markdown = "".join(parts)
    if source.is_relative_to(root / "reports"):
        markdown = markdown.replace("<details>", '<details markdown="1">')
        return re.sub(r"~~(.+?)~~", r"<del>\1</del>", markdown)
    return PLACEHOLDER.sub(lambda found: generated(root, uri, found["name"], found["argument"]), markdown)


def resolved(found: re.Match[str], source: Path, uri: str, config: MkDocsConfig, files: Files) -> str:
    """A link of the file ``source`` (``uri`` in the site) as the site has it."""
    path, mark, anchor = found["target"].partition("#")
    if not path or re.match(r"[a-z][a-z0-9+.-]*:", path):
        return found[0]
    target, root = (source.parent / path).resolve(), repository(config)
    if not target.is_file():
        return found["text"] if source.name == "report.md" else found[0]
    if not target.is_relative_to(root):
        raise PluginError(f"{uri}: the link to {path} leaves the repository")
    docs = Path(config.docs_dir).resolve()
    inside = target.relative_to(docs if target.is_relative_to(docs) else root).as_posix()
    goal = PAGES_OUTSIDE.get(inside, inside)
    if files.get_file_from_path(goal) is None:
        add(files, config, target, goal)
    relative = posixpath.relpath(goal, posixpath.dirname(uri) or ".")
    return f"{found['image']}[{found['text']}]({relative}{mark}{anchor})"


def add(files: Files, config: MkDocsConfig, path: Path, uri: str) -> None:
    """Put the file ``path`` into the site as ``uri``."""
    files.append(File.generated(config, uri, abs_src_path=str(path)))


def repository(config: MkDocsConfig) -> Path:
    """The folder of mkdocs.yml."""
    return Path(config.config_file_path).resolve().parent


def generated(root: Path, uri: str, name: str, argument: str) -> str:
    """What stands in the place of a placeholder. Raises PluginError for an unknown one."""
    if name not in GENERATED:
        raise PluginError(f"{uri}: unknown placeholder {name!r}; valid: {', '.join(GENERATED)}")
    return GENERATED[name](root, argument)


def selftest_matrix(root: Path, _: str) -> str:
    """The faults of ``reports/selftest/selftest.json`` and which detectors caught them."""
    result = json.loads((root / "reports/selftest/selftest.json").read_text(encoding="utf-8"))
    faults = [case for case in result["cases"] if case["kind"] != "clean"]
    clean, facts = result["clean"], result["facts"]
    caught = sum(case["ok"] for case in faults)
    cpu, cores = facts["hardware"]["cpu"], facts["hardware"]["cpu_cores"]
    rows = [
        (
            f"`{case['name']}`",
            case["kind"],
            case["what"],
            f"{case['caught']}/{len(case['runs'])}",
            ", ".join(named_alarms(case)) or "–",
        )
        for case in faults
    ]
    skipped = ", ".join(f"`{case['name']}`" for case in result["skipped"])
    return "\n".join(
        [
            f"{caught} of {len(faults)} faults were caught, on {cpu} with {cores} cores, by "
            f"`{' '.join(facts['command'])}` ([evidence of every alarm](reports/selftest/selftest.md)). "
            "c = 1 is a request sent alone.",
            "",
            *table(("fault", "where", "what goes wrong", "caught", "named detectors that alarmed (lowest c)"), rows),
            "",
            f"The clean server: {clean['alarming_runs']} of {clean['runs']} runs raised an alarm (95 % interval of the "
            f"rate {clean['rate_low']:.1%} to {clean['rate_high']:.1%}).",
            "",
            f"{skipped} are slowdowns that need `omni-bench ab`: single runs cannot show them.",
        ]
    )


def named_alarms(case: dict[str, Any]) -> Iterable[str]:
    """The detectors named in advance that alarmed, with the lowest concurrency at which they did."""
    for detector in case["expected"]:
        seen = [one["concurrency"] for run in case["runs"] for one in run["alarms"] if one["detector"] == detector]
        if seen:
            yield f"{detector} (c={min(seen)})"


def levels(root: Path, folder: str) -> str:
    """The levels of a run that is committed in ``folder``."""

    def pair(level: dict[str, Any], metric: str, form: Callable[[float], str]) -> str:
        return " / ".join(shown(level["metrics"][metric][name], form) for name in ("p50", "p90"))

    run = json.loads((root / folder / "run.json").read_text(encoding="utf-8"))
    rows = [
        (
            str(level["concurrency"]),
            f"{level['completed']}/{level['requests']}",
            pair(level, "ttfp_ms", milliseconds),
            pair(level, "rtf", "{:.3f}".format),
            pair(level, "e2el_ms", milliseconds),
            shown(level["metrics"]["audio_per_s"]["mean"], "{:.2f}".format),
            shown((level["accuracy"] or {}).get("wer"), lambda wer: f"{100 * wer:.2f} %"),
            "yes" if level["valid"] else "no",
        )
        for level in run["levels"]
    ]
    names = ("c", "ok", "TTFP p50 / p90 (ms)", "RTF p50 / p90", "E2EL p50 / p90 (ms)", "audio/s", "WER", "valid")
    return "\n".join(table(names, rows, right=len(names) - 1))


def shown(value: float | None, form: Callable[[float], str]) -> str:
    """A figure, or n/a."""
    return "n/a" if value is None else form(value)


def milliseconds(value: float) -> str:
    """Three figures, at most one decimal."""
    return f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def metrics(_: Path, __: str) -> str:
    """The list of metrics."""
    names = ("metric", "name", "unit", "better", "definition")
    titles = {Scope.REQUEST: "Of a request", Scope.LEVEL: "Of a level", Scope.CHECK: "Of the checks of a level"}
    lines: list[str] = []
    for scope, title in titles.items():
        rows = [
            (f"`{one.name}`", one.short, one.unit or "1", one.better or "–", one.definition)
            for one in METRICS.values()
            if one.scope is scope
        ]
        lines += [f"## {title}", "", *table(names, rows), ""]
    return "\n".join(lines)


def invalid_reasons(_: Path, __: str) -> str:
    """The codes of invalid levels and runs; the names of the figures stand where the text has their values."""
    rows = [
        (f"`{code.value}`", code.blame.value, re.sub(r"\{(\w+)[^}]*\}", r"*\1*", code.text), code.next_step)
        for code in Code
    ]
    return "\n".join(table(("code", "who is to blame", "text, with its figures", "what to do next"), rows))


def configuration(_: Path, __: str) -> str:
    """Every config group: its bundled options and its keys."""
    lines: list[str] = []
    for group, line in groups().items():
        lines += [f"## {group}", "", line, ""]
        if group in GROUPS:
            options = [(f"`{group}={name}`", what) for name, what in group_options(group).items()]
            lines += [*table(("option", "what it is"), options), ""]
        rows = [
            (f"`{key.name}`", "" if key.default == MISSING else f"`{written(key.default)}`", key.explanation)
            for key in config_keys(group)
        ]
        lines += [*table(("key", "default", "explanation"), rows), ""]
    return "\n".join(lines)


def columns(_: Path, kind: str) -> str:
    """The columns of the frames of a run or a history; those of a metric's distribution are one row."""
    lines: list[str] = []
    for frame, of in FRAMES[kind].items():
        rows, seen = [], set()
        for column in of:
            name, _, figure = column.name.rpartition("_")
            if name not in METRICS or figure not in FIGURES:
                rows.append((f"`{column.name}`", column.type, column.unit, column.what))
            elif name not in seen:
                seen.add(name)
                unit, what = METRICS[name].unit, f"{METRICS[name].label}: {', '.join(FIGURES)}"
                rows.append((f"`{name}_…`", "float64", unit, what))
        lines += [f"### {kind}: {frame}", "", *table(("column", "type", "unit", "what it is"), rows), ""]
    return "\n".join(lines)


def drawing(root: Path, name: str) -> str:
    """The layers of the contract of pyproject.toml whose name begins with ``name``, as boxes, the top one first."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    contract = next(one for one in contracts if one["type"] == "layers" and one["name"].startswith(name))
    rows = "".join(
        f'<div class="layer">{"".join(box(root, module.strip(" ()")) for module in re.split("[|:]", layer))}</div>'
        for layer in contract["layers"]
    )
    return f'<div class="drawing">{rows}</div>'


def box(root: Path, module: str) -> str:
    """A module or package of the drawing: its name, the first sentence of its docstring, its packages."""
    path = root / module.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    doc = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    inside = sorted(one.name for one in path.glob("*/") if (one / "__init__.py").is_file()) if path.is_dir() else []
    more = f"<small>{' · '.join(inside)}</small>" if inside else ""
    first = escape(doc.partition("\n\n")[0].replace("``", ""))
    return f"<div><b>{module.removeprefix('omni_bench.').removeprefix('reference_impl.')}</b> {first} {more}</div>"


def table(names: Sequence[str], rows: Iterable[Sequence[str]], right: int = 0) -> list[str]:
    """The lines of a Markdown table; its first ``right`` columns are aligned to the right."""
    rule = "|".join(["--:"] * right + ["---"] * (len(names) - right))
    lines = [" | ".join(map(escaped, row)) for row in (names, *rows)]
    return [f"| {lines[0]} |", f"|{rule}|", *(f"| {line} |" for line in lines[1:])]


def escaped(cell: str) -> str:
    """A cell that begins no column and no HTML; code is taken as it is."""
    cell = cell.replace("|", "\\|")
    return cell if cell.startswith("`") else cell.replace("<", "&lt;")


GENERATED: dict[str, Callable[[Path, str], str]] = {
    "selftest_matrix": selftest_matrix,
    "levels": levels,
    "metrics": metrics,
    "invalid_reasons": invalid_reasons,
    "configuration": configuration,
    "columns": columns,
    "drawing": drawing,
}
