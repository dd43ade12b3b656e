"""junit.xml: a test case for each load's integrity, and for each gated metric at each load."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from omni_bench.nightly.gate.result import GateResult, IntegrityCase, SeriesResult, Status
from omni_bench.records.invalid_reason import InvalidReason, next_steps

SUITE = "omni-bench gate"
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_junit(result: GateResult) -> bytes:
    """The document: a regression or hard failure is a failure, no measurement an error, inconclusive is skipped."""
    suite = ElementTree.Element("testsuite", name=SUITE, timestamp=(result.run.started_utc or "").removesuffix("Z"))
    for case in result.integrity:
        _integrity(suite, result.run.scenario, case)
    for one in result.series:
        _series(suite, result.run.scenario, one)
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
        ElementTree.SubElement(element, "system-out").text = _clean("\n".join(case.warnings))


def _series(suite: ElementTree.Element, scenario: str, one: SeriesResult) -> None:
    element = _case(suite, f"{scenario}.{one.load}", one.metric)
    if one.status is Status.REGRESSION:
        child = ElementTree.SubElement(element, "failure", message=_clean(one.reason), type=str(one.status))
        child.text = _clean(one.reason)
    elif one.status in (Status.INCONCLUSIVE, Status.UNCONFIRMED):
        ElementTree.SubElement(element, "skipped", message=_clean(f"{one.status}: {one.reason}"))
    else:
        ElementTree.SubElement(element, "system-out").text = _clean(f"{one.status}: {one.reason}")


def _case(suite: ElementTree.Element, classname: str, name: str) -> ElementTree.Element:
    return ElementTree.SubElement(suite, "testcase", classname=_clean(classname), name=_clean(name), time="0")


def _add(element: ElementTree.Element, tag: str, reasons: tuple[InvalidReason, ...]) -> None:
    """The code of the first reason as its type; all of them, and what to do next, as its text."""
    first = reasons[0]
    child = ElementTree.SubElement(element, tag, message=_clean(str(first)), type=_clean(first.code))
    child.text = _clean("\n".join([*map(str, reasons), *(f"next: {step}" for step in next_steps(reasons))]))


def _clean(text: str) -> str:
    """Without what XML 1.0 has no way to write."""
    return _NOT_XML.sub("\ufffd", text)
