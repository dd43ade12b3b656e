"""Text of others where it is shown: nothing of it is obeyed, and it can still be read."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from omni_bench.foreign_text import (
    MAX_FIELD_CHARS,
    MAX_LINE_CHARS,
    MAX_PAGE_CHARS,
    MAX_STATED_CHARS,
    MAX_STATED_ENTRIES,
    annotation,
    bounded,
    code_block,
    code_span,
    escape_markdown,
    for_xml,
    is_cut,
    one_field,
    one_line,
    page_of,
    safe_name,
    stated,
    visible,
)
from omni_bench.terminal import say, say_error, say_page

EVIL = (
    "</td></details><script>alert(1)</script><img src=x> | a |\n# HEAD\n::error::boom"
    "\r\n\u3000\u00a0::warning::x\r\nmodel ##[group]x ##vso[task.setvariable variable=a]b\n![i](http://e) `x` ```"
    "\n~~~ @octocat [/bold] \x1b[2J\x1b]0;t\x07 \u202e %0A <!-- ${{ secrets.X }} \ud800"
)


def test_a_log_of_actions_and_a_terminal_obey_nothing(capsys):
    say_page(EVIL)
    shown = capsys.readouterr().out
    assert not any(line.lstrip().startswith("::") for line in shown.splitlines())
    assert "##[" not in shown and "##vso" not in shown  # these are obeyed anywhere in a line
    assert "\\u003a:error::boom" in shown and "\\u0023#[group]" in shown
    assert not set(shown) & {"\x1b", "\x07", "\r", "\u202e"}
    assert visible("a :: b\n# title") == "a :: b\n# title"  # elsewhere in a line it is nothing


def test_what_is_one_line_stays_one(capsys):
    say(f"model {EVIL * 100}")
    assert len((line := capsys.readouterr().out).splitlines()) == 1 and len(line) < 3 * MAX_LINE_CHARS
    say_error(f"no such thing: {EVIL}")
    first, *others = capsys.readouterr().err.splitlines()
    assert first.startswith("omni-bench: error: no such thing") and all(line.startswith("  ") for line in others)
    assert len(one_field(EVIL * 100)) < 3 * MAX_FIELD_CHARS and one_line("a \n b") == "a b"


def test_an_answer_is_kept_within_bounds():
    plain = {"status": "ok", "data": [{"id": "m", "permission": [{"x": None}]}], "n": 1.5}
    assert stated(plain) == plain and not is_cut(plain["data"])
    deep: list = []
    for _ in range(900):
        deep = [deep]
    huge = {"x" * 5000: "y" * 10**6, "deep": deep, "list": list(range(10**5)), **{str(n): EVIL for n in range(10**4)}}
    kept = stated(huge)
    assert len(json.dumps(kept, ensure_ascii=False)) < 1.2 * MAX_STATED_CHARS and is_cut(kept["list"])
    assert next(iter(kept.values())).endswith("...") and len(kept) <= MAX_STATED_ENTRIES + 1
    assert stated([EVIL] * 3)[0] == EVIL  # for the record it is what was said


def test_a_page_has_room_for_the_first_parts():
    parts = ["# title\x1b", None, "\n".join(["- item"] * 10_000), "<details>\n" + "z" * 70_000, "## last"]
    page = page_of(parts, "Left out.")
    assert len(page) <= MAX_PAGE_CHARS and page.startswith("# title\\u001b\n\n- item") and "\x1b" not in page
    assert "characters are left out here" in page and "<details>" not in page and page.endswith("Left out.\n")
    assert page_of(["a", "b"], "Left out.") == "a\n\nb\n"


@pytest.mark.timeout(20)
@pytest.mark.parametrize("piece", [" ", "\t ", " \r", " \n", "##", "\r", "#a"])
def test_a_long_text_takes_no_minutes(piece):
    assert len(one_line(piece * 100_000 + "a")) <= MAX_LINE_CHARS * 6


def test_an_annotation_is_one_line_of_bounded_length():
    line = annotation("error", EVIL, EVIL * 100)
    assert line.startswith("::error title=") and line.count("\n") == 0 and "\x1b" not in line
    assert len(line) < 8000 and "characters are left out here" in line
    title = line.partition("title=")[2].partition("::")[0]
    assert ":" not in title and "," not in title


def test_markdown_shows_it_as_words():
    shown = escape_markdown(EVIL)
    assert "\n" not in shown and "<" not in shown and "@octocat" not in shown and "&#64;octocat" in shown
    assert all(shown[at - 1] == "\\" for at, char in enumerate(shown) if char in "|`[]~$*_{}")
    assert escape_markdown("a@b.example") == "a@b.example"
    assert code_span("a`|\nb") == "`` a`¦ b ``" and code_block("```\nx").startswith("````\n")


def test_xml_can_be_read_back():
    element = ElementTree.Element("a", message=for_xml(EVIL))
    assert ElementTree.fromstring(ElementTree.tostring(element)).get("message").startswith("</td>")


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "", "x" * 300, "-\x00", EVIL])
def test_a_file_name_stays_in_its_folder(name):
    safe = safe_name(name)
    assert safe and "/" not in safe and not safe.startswith(".") and len(safe) < 100
    assert safe_name("c1-0001") == "c1-0001" and safe_name("a/b") != safe_name("a_b")


def test_long_text_is_cut_at_a_line_and_says_so():
    text = "line\n" * 1000
    cut = bounded(text, 1000)
    assert len(cut) < 1000 and cut.splitlines()[-1] == f"[... {5000 - cut.rfind('[')} characters are left out here ...]"
    assert bounded("short", 1000) == "short"
