"""No duration is taken from a clock that can be set: who reads one does so for a date."""

from __future__ import annotations

import ast

from repository import ROOT

DATES = {
    "omni_bench/commands/ab.py": {"datetime.now"},
    "omni_bench/compare/ab/study.py": {"datetime.now"},
    "omni_bench/nightly/history/rows.py": {"datetime.now"},
    "omni_bench/run/calibration.py": {"datetime.now"},
    "omni_bench/run/config/compose.py": {"datetime.now"},
    "omni_bench/run/orchestrate.py": {"datetime.now"},
    "reference_impl/http/app.py": {"time.time"},  # OpenAI's `created`, as in the next
    "reference_impl/http/chat_response.py": {"time.time"},
}
CLOCKS = {
    "time.time",
    "time.time_ns",
    "time.localtime",
    "time.gmtime",
    "datetime.now",
    "datetime.utcnow",
    "datetime.today",
}
CLOCKS |= {"date.today", "time.clock_gettime", "time.clock_gettime_ns"}


def test_clocks_that_jump_are_read_for_dates_alone():
    found: dict[str, set[str]] = {}
    for package in ("omni_bench", "reference_impl"):
        for path in (ROOT / package).rglob("*.py"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            names = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
            imported = {
                f"{node.module}.{one.name}"
                for node in ast.walk(tree)
                if isinstance(node, ast.ImportFrom)
                for one in node.names
            }
            if used := (names | imported) & CLOCKS:
                found[str(path.relative_to(ROOT))] = used
    assert found == DATES
