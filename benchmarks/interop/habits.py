"""Our client with the habits of vllm-omni's, for ``interop.py``: the same work between the same two looks at the clock.

Requests, streams and timelines are made by omni-bench's own client and closed loop; what differs from a run is
only what their ``_build_benchmark_session`` and ``async_request_openai_audio_speech`` (vllm-omni 0.30.0) do otherwise.
"""

from __future__ import annotations

import asyncio
import gc
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter_ns

import aiohttp

from omni_bench.load.clients.abort import AbortSwitch
from omni_bench.load.clients.exchange import RequestContext
from omni_bench.load.clients.session import READ_BUFFER_BYTES
from omni_bench.load.clients.wire_forms import FORMS
from omni_bench.load.events import LevelJob
from omni_bench.load.loops import run_closed_loop
from omni_bench.load.runner import make_job
from omni_bench.records.config import ClientConfig
from omni_bench.records.plan import LevelPlan, PlannedRequest
from omni_bench.records.timeline import Timeline


@dataclass(frozen=True)
class Habits:
    """What their client does for each request within the time it measures, and ours before, once, or never.

    ``connects``: a connection of its own (``force_close``). ``writes_json``: the body as JSON. ``looks_for_proxy``:
    in the environment and .netrc (``trust_env``).
    """

    connects: bool = True
    writes_json: bool = True
    looks_for_proxy: bool = True


THEIRS = Habits()


def timelines_with(habits: Habits, plan: LevelPlan, url: str, client: ClientConfig) -> list[Timeline]:
    """The measured requests of ``plan``, after its warm-up; ``started_ns`` is before everything that they do."""
    job = make_job(plan, url, client, Path(), "/health")
    gc.collect()
    gc.freeze()
    try:
        return asyncio.run(_run(habits, job, client))
    finally:
        gc.unfreeze()


async def _run(habits: Habits, job: LevelJob, client: ClientConfig) -> list[Timeline]:
    form, plan, abort = FORMS[client.kind], job.plan, AbortSwitch()
    bodies = {request.request_id: form.encode(request.body) for request in (*plan.warmup, *plan.measured)}
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, force_close=habits.connects),
        trust_env=habits.looks_for_proxy,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=job.options.connect_timeout_s),
        read_bufsize=READ_BUFFER_BYTES,
    )
    async with session:

        async def send(request: PlannedRequest, scheduled_ns: int) -> Timeline:
            started_ns = perf_counter_ns()
            payload = form.encode(request.body) if habits.writes_json else bodies[request.request_id]
            context = RequestContext(
                session, job.url, request, payload, plan.concurrency, scheduled_ns, job.options, abort
            )
            timeline, _ = await form.send(context)
            return replace(timeline, started_ns=started_ns)

        for requests in (plan.warmup, plan.measured):
            done = await run_closed_loop(requests, plan.concurrency, send)
    return list(done.timelines)
