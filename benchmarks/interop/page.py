"""The page that ``interop.py`` writes: what was run, the tables, and one line a difference."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from benchmarks.interop.report import (
    OPENAI,
    OURS,
    ROWS,
    Group,
    agreement,
    definitions,
    explanations,
    parts_table,
    plain_table,
    statistics_table,
)
from benchmarks.interop.table import agrees, over_rounds
from omni_bench import __version__
from omni_bench.records.timeline import Timeline
from omni_bench.run.provenance import cpu_model, package_version, usable_cores

SPEECH_COLUMNS = (
    ("ttfp_ms", "TTFP ms", "ms"),
    ("e2el_ms", "E2EL ms", "ms"),
    ("rtf", "RTF", ""),
    ("audio_s", "audio s", "s"),
)

INTRODUCTION = """
vllm-omni's own `vllm bench serve --omni`, the openai package, AIPerf and guidellm drive the reference
server, and so does omni-bench, with the same prompts, seed, number of requests and concurrency. Where two clients
mean the same by a metric they have to say the same: within 3 %, or 2 ms for times.
"""
PERCENTILES = """
Percentiles are the same on both sides: linear interpolation, numpy's default. Ours prints p95 and p99
only from 59 and 299 requests on; theirs always. Theirs saves no audio figure of single requests
(`--save-detailed` has the starts, TTFT and ITL), so medians of runs are compared, and single requests
only by their starts.
"""
READING = """
Theirs and ours: medians over the runs of the runs' medians; ours as `omni-bench run` measures it. 'Ours, by their
definition': their formulas over the timelines of our client with the habits of theirs (`habits.py`): within the
timed call it writes the JSON, looks for a proxy and connects. 'Difference': theirs − ours by their definition, the
median over the pairs of runs; 'of the rounds': the lowest and highest pair.
"""
PARTS = """
Milliseconds, medians. The server notes when it has read the headers of a request, when its engine has it
and when that gives its first chunk; both clients say when they started, on the same clock. Headers are read before
the body: 'to the server' is writing the JSON and looking for a proxy (theirs, and ours like theirs), connecting and
sending; 'body read' includes the server's parsing, and 'to the client' is what is left of the TTFP.
"""
STEADY = """
A first chunk 50 ms after the engine has the request, then one each 30 ms of 25 ms of audio, eight in all, whatever else
is in flight: slower than real time, so that players run dry.
"""
TINY = """
The same with the model: {requests} requests a run, two runs each. Server and client share the cores, so that
runs of one client differ too (see 'of the rounds'). The seed is the same in every request, and so is the audio of each
prompt, to the sample.
"""
OPENAI_TEXT = """
`AsyncOpenAI().audio.speech.with_streaming_response.create(...)`, timed around the call: start, first bytes of
`iter_bytes()`, end. No recording in the body; connections are kept, as ours are. Its time includes that of
httpx, on which it is built. Its audio is byte for byte the server's (`tests/reference_impl/test_openai_client.py`).
"""


@dataclass
class Page:
    """Everything that is told. The groups are by concurrency; ``plain``: without the recording in the body."""

    command: str
    requests: int
    tiny_requests: int
    rounds: int = 0
    duration_s: float = 0.0
    versions: dict[str, Any] = field(default_factory=dict)
    steady: dict[int, Group] = field(default_factory=dict)
    plain: dict[int, Group] = field(default_factory=dict)
    tiny: dict[int, Group] = field(default_factory=dict)
    steps: dict[int, Group] = field(default_factory=dict)
    wav: dict[int, list[Timeline]] = field(default_factory=dict)
    openai: dict[int, Group] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)


def write_page(page: Page) -> str:
    """The Markdown."""
    parts = ["# Other clients on our server, and ours", wrap(INTRODUCTION), set_up(page)]
    parts += ["## What is meant by what", definitions(), wrap(PERCENTILES)]
    parts += ["## A server without a model", wrap(STEADY + verdict(page.steady)), wrap(READING)]
    for level, group in page.steady.items():
        parts += [f"### Concurrency {level}", agreement(group), "Where the columns differ:"]
        causes = explanations(group, page.plain[level], page.steps[level], page.wav[level])
        parts.append("\n".join(map(bullet, causes)))
        parts.append(statistics_table(group))
    parts += ["### Where the time to the first packet goes", wrap(PARTS)]
    parts.append(parts_table([group for level in page.steady for group in (page.steady[level], page.plain[level])]))
    if page.tiny:
        parts += ["## The bundled voice on the CPU", wrap(TINY.format(requests=page.tiny_requests))]
        for level, group in page.tiny.items():
            parts += [f"### The bundled voice, concurrency {level}", agreement(group)]
    parts += ["## The openai package", wrap(OPENAI_TEXT), openai_table(page)]
    parts += page.others
    parts += ["## Reproduce", f"```sh\n{page.command}\n```"]
    return "\n\n".join(parts) + "\n"


def wrap(text: str) -> str:
    """As Markdown is written here."""
    text = " ".join(text.split())
    return textwrap.fill(text, 119, break_long_words=False, break_on_hyphens=False)


def bullet(text: str) -> str:
    """An item of a list."""
    lines = textwrap.wrap(" ".join(text.split()), 117, break_long_words=False, break_on_hyphens=False)
    return "- " + "\n  ".join(lines)


def set_up(page: Page) -> str:
    """Versions, machine and load."""
    theirs = ", ".join(f"{name} {version}" for name, version in page.versions.items())
    lines = [
        f"omni-bench {__version__} with aiohttp {aiohttp.__version__}; {theirs} in theirs; "
        f"openai {package_version('openai')}",
        f"{cpu_model() or 'unknown CPU'}, {usable_cores()} cores, server and clients on the same machine; "
        f"{page.duration_s:.0f} s in all",
        f"""{page.requests} requests a run, {page.rounds} runs of each client in the order A B C, C B A, ... on one
        server that stays up; each run warms up first (two requests a slot, which are not counted)""",
        """prompts and recordings of `seed_tts_mini`; the recording of a prompt goes along as base64, as their client
        does it""",
        """their client stays loaded between its runs (`vllm_bench.py` gives its command line one run after another):
        its imports take half a minute""",
    ]
    return "\n".join(bullet(line) for line in lines)


def verdict(groups: dict[int, Group]) -> str:
    """How many figures agree."""
    outside, compared = [], 0
    for level, group in groups.items():
        for row in ROWS:
            theirs = [figures[row.name].headline for figures in group.theirs()]
            ours = [figures[row.name].headline for figures in group.ours_by_theirs()]
            within = agrees(over_rounds(theirs).value, over_rounds(ours).value, row.unit)
            compared += within is not None
            if within is False:
                outside.append(f"{row.title} at c = {level}")
    if outside:
        return f"**{compared - len(outside)} of {compared} figures agree; outside: {', '.join(outside)}.**"
    return f"**All {compared} figures agree within 3 % or 2 ms where the definitions are made the same.**"


def openai_table(page: Page) -> str:
    """Beside ours with the same body and kept connections."""
    lines = []
    for level, group in page.openai.items():
        for client, source in ((OPENAI, group), (OURS, page.plain[level])):
            lines.append((client, level, {name: source.cell(client, name) for name, _, _ in SPEECH_COLUMNS}))
    return plain_table(lines, SPEECH_COLUMNS)
