"""junit.xml: a test case for each load's integrity, and for each gated metric at each load."""

from __future__ import annotations

from xml.etree import ElementTree

from omni_bench.foreign_text import for_xml
from omni_bench.nightly.gate.advice import onset_line
from omni_bench.nightly.gate.result import GateResult, IntegrityCase, NextStep, SeriesResult, Status
from omni_bench.records.invalid_reason import InvalidReason, next_steps

SUITE = "omni-bench gate"


def render_junit(result: GateResult) -> bytes:
    """The document: a regression or hard failure is a failure, no measurement an error, inconclusive is skipped.

    What is acute and was not run again is a failure too: nothing says yet that it is none.
    """
    suite = ElementTree.Element("testsuite", timestamp=(result.run.started_utc or "").removesuffix("Z"))
    for case in result.integrity:
        _integrity(suite, result.run.scenario, case)
    for one in result.series:
        _series(suite, result, one)
    return written(suite)


def written(suite: ElementTree.Element) -> bytes:
    """The file of one suite, with its counts."""
    suite.set("name", SUITE)
    counts = {name: len(suite.findall(f"testcase/{name}")) for name in ("failure", "error", "skipped")}
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(counts["failure"]))
    suite.set("errors", str(counts["error"]))
    suite.set("skipped", str(counts["skipped"]))
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True) + b"\n"


def _integrity(suite: ElementTree.Element, scenario: str, case: IntegrityCase) -> None:
    element = _case(suite, f"{scenario}.integrity", case.name)
    if case.failures:
        _add(element, "failure", case.failures)
    elif case.errors:
        _add(element, "error", case.errors)
    if case.warnings:
        ElementTree.SubElement(element, "system-out").text = for_xml("\n".join(case.warnings))


def _series(suite: ElementTree.Element, result: GateResult, one: SeriesResult) -> None:
    element = _case(suite, f"{result.run.scenario}.{one.load}", one.metric)
    is_open = one.onset is not None and not one.onset.is_new
    if one.status in (Status.REGRESSION, Status.UNCONFIRMED) or (is_open and result.until_accepted):
        child = ElementTree.SubElement(element, "failure", message=for_xml(one.reason), type=str(one.status))
        steps = [step_text(step) for step in result.next_steps]
        where = [onset_line(change) for change in result.changes if one in change.series]
        child.text = for_xml("\n".join(dict.fromkeys([one.reason, *where, *steps])))
    elif one.status is Status.INCONCLUSIVE:
        ElementTree.SubElement(element, "skipped", message=for_xml(f"{one.status}: {one.reason}"))
    else:
        ElementTree.SubElement(element, "system-out").text = for_xml(f"{one.status}: {one.reason}")


def step_text(step: NextStep) -> str:
    """``confirm it: omni-bench ab ...``."""
    return f"{step.text}: {step.command}" if step.command else step.text


def _case(suite: ElementTree.Element, classname: str, name: str) -> ElementTree.Element:
    return ElementTree.SubElement(suite, "testcase", classname=for_xml(classname), name=for_xml(name), time="0")


def _add(element: ElementTree.Element, tag: str, reasons: tuple[InvalidReason, ...]) -> None:
    """The code of the first reason as its type; all of them, and what to do next, as its text."""
    first = reasons[0]
    child = ElementTree.SubElement(element, tag, message=for_xml(str(first)), type=for_xml(first.code))
    child.text = for_xml("\n".join([*map(str, reasons), *(f"next: {step}" for step in next_steps(reasons))]))
