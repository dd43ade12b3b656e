"""What a night leaves that could not be judged at all: the files of any other, so that nobody reads old ones."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from omni_bench.errors import EXIT_INFRASTRUCTURE
from omni_bench.foreign_text import code_span, escape_markdown, for_xml
from omni_bench.nightly.gate.document import VERSION
from omni_bench.nightly.gate.junit import written
from omni_bench.nightly.gate.result import GateOutcome

CODE = "no_night"


def document_of(run: str, message: str) -> dict[str, Any]:
    """gate.json: no run, and the error."""
    return {
        "schema_version": VERSION,
        "outcome": str(GateOutcome.INVALID),
        "exit_code": EXIT_INFRASTRUCTURE,
        "run": None,
        "error": {"code": CODE, "run": run, "text": message},
    }


def junit_of(run: str, message: str) -> bytes:
    """junit.xml: one case, in error."""
    suite = ElementTree.Element("testsuite")
    case = ElementTree.SubElement(suite, "testcase", classname="gate.integrity", name=for_xml(f"run {run}"), time="0")
    child = ElementTree.SubElement(case, "error", message=for_xml(message.splitlines()[0]), type=CODE)
    child.text = for_xml(message)
    return written(suite)


def page_of(run: str, message: str) -> str:
    """gate.md, and the step summary."""
    return (
        "## ⚠️ omni-bench gate: NO NIGHT\n\n"
        f"**The run could not be judged**: {escape_markdown(message)}\n\n- **run**: {code_span(run)}\n"
        "- see the log of the step that made it; a run folder without run.json was killed or is still going on\n"
    )
