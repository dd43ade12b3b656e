"""A page as one file: templates with autoescape, its data as JSON, and a policy that lets it load nothing.

The drawings are SVG made by page.js. Chart libraries were weighed: those that Python packages ship (Plotly, Bokeh,
Vega) would add one to four MB to the page of every run of a study, and none draws a swim lane whose bars lead to
recordings; SVG takes its colours from the style sheet, so that dark mode and print need nothing more.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from omni_bench.foreign_text import inert

_HERE = Path(__file__).parent


def render_page(template: Path, context: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    """The page that ``template`` (beside it or here: base.html) makes of ``context``.

    ``data``: what page.js reads, JSON values. No text of either can become markup or script, and no control character
    of either is left, for those who look at the file with other programs.
    """
    environment = Environment(
        loader=FileSystemLoader([template.parent, _HERE]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    page = environment.get_template(template.name).render(
        **context,
        data=script_json(data),
        script=Markup(script),
        style=Markup((_HERE / "page.css").read_text(encoding="utf-8")),
        policy=f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "media-src data: 'self' file:; img-src data:; base-uri 'none'; form-action 'none'",
    )
    return inert(page)


def script_json(data: Mapping[str, Any]) -> Markup:
    """``data`` as JSON that stays inside a script element: no ``<`` is left that could end it."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))


def from_markdown(text: str) -> Markup:
    """A section of report.md as HTML; HTML within it stays text, and links go to http, https and files only."""
    return Markup(_MARKDOWN.render(text))


_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image")
