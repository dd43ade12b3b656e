"""Do the tests notice mistakes? Applies each mutation of ``mutations.toml`` to a copy of the tree and runs its tests.

``python scripts/mutations.py [--only ID ...] [--out FILE]`` prints a table and exits with 1 unless all were caught.
Mutations run one at a time, each in a copy of its own; the tree itself is never changed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = Path(__file__).with_suffix(".toml")
TIMEOUT_S = 1800.0
NOT_COPIED = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "runs")
PYTEST_TESTS_FAILED = 1
CAUGHT, SURVIVED, ERROR = "caught", "**survived**", "**error**"


@dataclass(frozen=True)
class Mutation:
    """One mistake: ``old``, which occurs once in ``file``, becomes ``new``. ``tests``: files that should notice.

    Paths are relative to the repository. ``why``: what the mistake would do to a user.
    """

    id: str
    file: str
    old: str
    new: str
    why: str
    tests: tuple[str, ...]


@dataclass(frozen=True)
class Result:
    """``verdict``: caught, survived or error. ``detail``: the first test that failed, or what went wrong."""

    mutation: Mutation
    verdict: str
    detail: str


def read_mutations(path: Path) -> list[Mutation]:
    """The mutations of a TOML file, in order."""
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["mutation"]
    return [Mutation(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]


def mutate(tree: Path, mutation: Mutation) -> str | None:
    """Apply ``mutation`` to the files in ``tree``; why that cannot be done, else None."""
    paths = [tree / name for name in (mutation.file, *mutation.tests)]
    missing = [str(path.relative_to(tree)) for path in paths if not path.is_file()]
    if missing:
        return f"no file {', '.join(missing)}"
    text = paths[0].read_text(encoding="utf-8")
    count = text.count(mutation.old)
    if count != 1:
        return f"the old text occurs {count} times"
    paths[0].write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
    return None


def try_mutation(mutation: Mutation) -> Result:
    """Run the tests of one mutation in a copy of the tree. Only tests that ran and failed count as a catch."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=NOT_COPIED, symlinks=True)
        problem = mutate(tree, mutation)
        if problem is not None:
            return Result(mutation, ERROR, problem)
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *mutation.tests]
        env = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            run = subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return Result(mutation, ERROR, f"the tests took longer than {TIMEOUT_S:g} s")
    failed = re.search(r"^(?:FAILED|ERROR) (\S+::.*?)(?: - |$)", run.stdout, re.MULTILINE)
    if run.returncode == 0:
        return Result(mutation, SURVIVED, "no test failed")
    if run.returncode != PYTEST_TESTS_FAILED or failed is None:
        last_line = (run.stdout.strip().splitlines() or run.stderr.strip().splitlines() or ["no output"])[-1]
        return Result(mutation, ERROR, f"pytest ended with {run.returncode}: {last_line}")
    return Result(mutation, CAUGHT, failed[1])


def markdown(results: list[Result]) -> str:
    """The results as a table, with a line that counts them."""
    lines = ["| mutation | file | change | why it matters | result | first failing test |", "|---|---|---|---|---|---|"]
    for result in results:
        one = result.mutation
        change = f"`{one.old}` → `{one.new}`" if one.new else f"`{one.old}` removed"
        cells = (one.id, f"`{one.file}`", change, one.why, result.verdict, f"`{result.detail}`")
        lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    caught = sum(result.verdict == CAUGHT for result in results)
    lines += ["", f"{caught} of {len(results)} mutations caught.", ""]
    return "\n".join(lines)


def main() -> int:
    """Parse the command line, try the mutations, print the table."""
    mutations = {mutation.id: mutation for mutation in read_mutations(TABLE)}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="ID", action="append", choices=mutations, help="this mutation alone")
    parser.add_argument("--out", metavar="FILE", type=Path, help="write the table there too")
    parsed = parser.parse_args()
    results = []
    for name in parsed.only or mutations:
        results.append(try_mutation(mutations[name]))
        print(f"{name}: {results[-1].verdict}: {results[-1].detail}", file=sys.stderr, flush=True)
    table = markdown(results)
    print(table, end="")
    if parsed.out is not None:
        parsed.out.write_text(table, encoding="utf-8")
    expected = (result.verdict == CAUGHT for result in results)
    return 0 if all(expected) else 1


if __name__ == "__main__":
    sys.exit(main())
