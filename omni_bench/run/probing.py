"""The probe before anything is timed: a handful of short requests, by which :mod:`omni_bench.run.conformance` is found.

They are made by the configured client's own code, but in this process, and none of them is measured.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np

from omni_bench.accuracy.parity.pcm import compare_pcm
from omni_bench.accuracy.signal.audio_faults import audio_faults
from omni_bench.accuracy.signal.sample_form import other_form
from omni_bench.errors import ProtocolError, TargetError
from omni_bench.load.clients.abort import AbortReason, AbortSwitch
from omni_bench.load.clients.exchange import RequestContext
from omni_bench.load.clients.responses import container_of, parse_content_type, stated_rate
from omni_bench.load.clients.session import IDLE_S, open_session
from omni_bench.load.clients.wire_forms import FORMS, RequestedModalities
from omni_bench.load.events import LevelJob
from omni_bench.load.runner import TARGET_DIED, make_job
from omni_bench.records.api_key import key_of, without_key
from omni_bench.records.config import ClientConfig, RunConfig, TargetConfig
from omni_bench.records.plan import LevelPlan, PlannedRequest
from omni_bench.records.prompt import Prompt
from omni_bench.records.timeline import RequestError, Timeline
from omni_bench.run.conformance import (
    NOT_REPEATABLE,
    OBEYED,
    WITHOUT_EFFECT,
    Conformance,
    Framing,
    describe,
    unlisted_model,
    warnings,
)
from omni_bench.targets.base import Target, TargetInfo
from omni_bench.targets.probe import key_advice
from omni_bench.targets.reference import injected_fault

SHORT = {"en": "Good morning.", "zh": "大家早上好。"}
LONG = {"en": "Good morning to all of you, and welcome to this place.", "zh": "大家早上好，欢迎来到这里，请坐。"}
"""Some three seconds, for a server whose first chunk may be longer than the short sentence."""
ALIVE_POLL_S = 0.25
RETRY_AFTER_S = 1.0
SETTLE_S = 0.3
"""A connection breaks a moment before its server is known to have died."""
IDLE_CHECK_S = 1.2 * IDLE_S
"""A connection that is open after that long is open whenever the load uses it again."""
HEALTH_TIMEOUT_S = 2.0
INTERRUPTED = AbortReason(*(RequestError("cancelled", "the probe was interrupted"),) * 2)
_BUSY = (408, 429)
_HOPELESS = ("timeout", "content_type", "too_large", "cancelled")
"""Failures that a second try does not mend, or that take too long to see twice."""


def injected(target: TargetConfig, info: TargetInfo) -> bool:
    """Whether a fault is injected on purpose: that is for the run itself to find, and some count requests."""
    return target.chaos is not None or injected_fault(info.kind, info.health) is not None


def probe_server(config: RunConfig, prompt: Prompt, target: Target, info: TargetInfo) -> Conformance:
    """Ask the server twice for one thing and once with another seed, and look at how it answers.

    ``prompt``: whose voice and reference are used, with a sentence of the probe's own (in a language that it has none
    of, the prompt's). Raises ProtocolError if the server cannot be measured with this client at all, TargetError if
    it dies.
    """
    # An interrupt is raised in this thread, between two steps of whatever runs here; in an event loop it would
    # end some task in the middle and be reported by it.
    stop = threading.Event()
    with ThreadPoolExecutor(1, "probe") as pool:
        future = pool.submit(lambda: asyncio.run(_probe(config, prompt, target, info, stop)))
        try:
            while not wait((future,), ALIVE_POLL_S).done:
                pass
        finally:
            stop.set()
    return future.result()


async def _probe(
    config: RunConfig, prompt: Prompt, target: Target, info: TargetInfo, stop: threading.Event
) -> Conformance:
    client = config.client
    job = make_job(LevelPlan(1, (), ()), target.base_url, client, Path(), config.target.health_path)
    framings: list[Framing] = []
    abort = AbortSwitch()
    async with open_session(job.options, key_of(client), idle_s=2 * IDLE_CHECK_S) as session:
        links = _Links()
        session.trace_configs.extend((_looking(framings), links.trace()))
        watch = asyncio.create_task(_watch(target, stop, abort))
        try:
            asker = _Asker(client, prompt, session, job, abort, links)
            first = await _first_answer(asker, target, info)
            framing = framings[-1] if framings else None
            seed = await _seed(asker, first)
            found = describe(first.timeline, framing, seed)
            if not found.streams and prompt.language in LONG:
                longer = await asker.ask(4, client.seed, LONG)
                if longer.timeline.ok:
                    found = describe(longer.timeline, framing, seed)
            found = replace(found, keeps_connections=await _keeps_connections(asker))
        finally:
            watch.cancel()
    _check_alive(target)
    said = (*warnings(found, client, info), *_oddities(first, prompt))
    key = key_of(client)
    return replace(found, content_type=without_key(found.content_type, key), warnings=without_key(said, key))


@dataclass
class _Links:
    """The connections of requests one after another.

    ``made``: by now; ``usable``: the answer on the last one ended well, so that we did not close it; ``closed``: one
    that could have been used on.
    """

    made: int = 0
    usable: bool = False
    closed: bool = False

    def trace(self) -> aiohttp.TraceConfig:
        async def note(*_: Any) -> None:
            self.made += 1

        config = aiohttp.TraceConfig()
        config.on_connection_create_end.append(note)
        config.freeze()
        return config


@dataclass(frozen=True)
class _Asker:
    client: ClientConfig
    prompt: Prompt
    session: aiohttp.ClientSession
    job: LevelJob
    abort: AbortSwitch
    links: _Links

    async def ask(self, number: int, seed: int | None, sentences: Mapping[str, str] = SHORT) -> _Answer:
        """Send a sentence, once more on a new connection if the server closed the one that had been used before.

        It may then be spoken twice, which only matters where it is timed.
        """
        made, usable = self.links.made, self.links.usable
        answer = await self._send(number, seed, sentences)
        error = answer.timeline.error
        if made == self.links.made and error is not None and error.kind == "disconnected":
            answer = await self._send(number, seed, sentences)
        self.links.usable = answer.timeline.ok
        if usable and made < self.links.made and answer.timeline.ok:
            self.links.closed = True
        return answer

    async def _send(self, number: int, seed: int | None, sentences: Mapping[str, str]) -> _Answer:
        form = FORMS[self.client.kind]
        text = sentences.get(self.prompt.language, self.prompt.text)
        body = form.build_body(replace(self.prompt, text=text), self.client, seed)
        planned = PlannedRequest(f"probe-{number}", self.prompt.id, body, seed, True, None)
        context = RequestContext(
            session=self.session,
            url=self.job.url,
            planned=planned,
            payload=form.encode(body),
            concurrency=1,
            scheduled_ns=time.perf_counter_ns(),
            options=self.job.options,
            abort=self.abort,
            id_prefix=self.job.id_prefix,
        )
        timeline, audio = await form.send(context)
        return _Answer(timeline, b"".join(audio))


@dataclass(frozen=True)
class _Answer:
    timeline: Timeline
    pcm: bytes

    def same_as(self, other: _Answer) -> bool:
        """Whether both are one answer, but for rounding: chunks of other sizes are decoded in other shapes."""
        one, another = (np.frombuffer(pcm[: len(pcm) // 2 * 2], dtype="<i2") for pcm in (self.pcm, other.pcm))
        return self.timeline.reply_text == other.timeline.reply_text and compare_pcm(one, another).equal


async def _first_answer(asker: _Asker, target: Target, info: TargetInfo) -> _Answer:
    """An answer with a clean end, from the first or the second try. Raises ProtocolError, TargetError."""
    for number in range(2):
        answer = await asker.ask(number, asker.client.seed)
        problem = _problem(answer, asker.client)
        if problem is None:
            return answer
        await asyncio.sleep(SETTLE_S)
        _check_alive(target)
        if _is_hopeless(answer.timeline):
            break
        if number == 0:
            await asyncio.sleep(RETRY_AFTER_S)
    advice = (key_advice(answer.timeline.http_status, key_of(asker.client)), unlisted_model(asker.client, info))
    said = without_key("; ".join(filter(None, (problem, *advice))), key_of(asker.client))
    raise ProtocolError(
        f"the server at {asker.job.url} cannot be measured with client={asker.client.kind}, so that nothing was timed: "
        f"{said}"
    )


async def _keeps_connections(asker: _Asker) -> bool | None:
    """Whether the connection of the answers before is still used for a request that comes a while later.

    None for a WebSocket, whose connection serves one request, and where the last answer failed, which closes it here.
    """
    if FORMS[asker.client.kind].is_socket or not (asker.links.usable or asker.links.closed):
        return None
    made = asker.links.made
    if not asker.links.closed:
        await asyncio.sleep(IDLE_CHECK_S)
        try:
            async with (
                asyncio.timeout(HEALTH_TIMEOUT_S),
                asker.session.get(asker.job.health_url, allow_redirects=False),
            ):
                pass
        except TimeoutError:  # of a server that has no such page; how it treats connections is what was asked
            pass
        except (aiohttp.ClientError, OSError):
            return False
    return not asker.links.closed and made == asker.links.made


def _check_alive(target: Target) -> None:
    if not target.is_alive():
        raise TargetError(f"the server died during the probe: {target.failure()}")


def _is_hopeless(timeline: Timeline) -> bool:
    """Whether a second try would only fail as well: what is refused for what it asks, not for when it came."""
    refused = timeline.http_status is not None and 400 <= timeline.http_status < 500
    return (refused and timeline.http_status not in _BUSY) or (
        timeline.error is not None and timeline.error.kind in _HOPELESS
    )


def _problem(answer: _Answer, client: ClientConfig) -> str | None:
    timeline, requested = answer.timeline, RequestedModalities.of(client)
    if timeline.error is not None:
        return f"{timeline.error.kind}: {timeline.error.message}"
    if requested.audio and not answer.pcm:
        return f"status {timeline.http_status} and a clean end, but no audio"
    if answer.pcm and (what := container_of(answer.pcm)) is not None:
        return f"what came as samples is {what} (begins with {answer.pcm[:16].hex(' ')})"
    if answer.pcm and (what := other_form(answer.pcm)) is not None:
        return f"what came as 16-bit samples looks like {what}"
    if requested.text and not requested.audio and not timeline.reply_text:
        return f"status {timeline.http_status} and a clean end, but no text"
    return None


def _oddities(answer: _Answer, prompt: Prompt) -> Iterator[str]:
    """What was passed over, and what the checks of every level will find too, now that it costs seconds."""
    if (kinds := answer.timeline.unknown_events) is not None:
        yield f"beside the audio came events that this client does not know and passes over: {kinds}"
    rate_hz = answer.timeline.sample_rate_hz
    if answer.pcm and rate_hz is not None:
        for fault in audio_faults(answer.pcm, rate_hz, None, prompt.language):
            yield f"the audio of the probe is faulty: {fault}; so the levels will be, most likely"


async def _seed(asker: _Asker, first: _Answer) -> str | None:
    """What the seed does, by two more answers; None if none is sent or one of them failed."""
    if asker.client.seed is None:
        return None
    same = await asker.ask(2, asker.client.seed)
    if not same.timeline.ok:
        await asyncio.sleep(SETTLE_S)
        return None
    if not same.same_as(first):
        return NOT_REPEATABLE
    other = await asker.ask(3, asker.client.seed + 1)
    if not other.timeline.ok:
        await asyncio.sleep(SETTLE_S)
        return None
    return WITHOUT_EFFECT if other.same_as(first) else OBEYED


def _looking(framings: list[Framing]) -> aiohttp.TraceConfig:
    """Notes the framing of every answer as its headers come."""

    async def note(_: Any, __: Any, end: aiohttp.TraceRequestEndParams) -> None:
        framings.append(_framing(end.response))

    trace = aiohttp.TraceConfig()
    trace.on_request_end.append(note)
    trace.freeze()
    return trace


def _framing(response: aiohttp.ClientResponse) -> Framing:
    headers = response.headers
    if response.status == 101:
        transfer = "websocket"
    elif "chunked" in headers.get("Transfer-Encoding", "").lower():
        transfer = "chunked"
    else:
        transfer = "length" if "Content-Length" in headers else "until close"
    content_type = headers.get("Content-Type")
    mime = None if content_type is None else parse_content_type(content_type)[0]
    return Framing(response.status, mime, transfer, stated_rate(headers)[0])


async def _watch(target: Target, stop: threading.Event, abort: AbortSwitch) -> None:
    """End the request in flight as soon as the server is gone, or it is no longer waited for."""
    while target.is_alive() and not stop.is_set():
        await asyncio.sleep(ALIVE_POLL_S)
    abort.trip(INTERRUPTED if stop.is_set() else AbortReason(TARGET_DIED, TARGET_DIED))
