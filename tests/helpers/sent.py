"""Requests sent by hand: one of a client, or those of a level."""

from __future__ import annotations

from omni_bench.load.clients.abort import AbortSwitch
from omni_bench.load.clients.exchange import RequestContext
from omni_bench.load.clients.wire_forms import FORMS
from omni_bench.load.runner import run_level
from omni_bench.records.plan import PlannedRequest


async def send(session, base_url, options, *, kind="openai_speech", request_id="c1-0000", payload=b"{}", **context):
    """(timeline, audio reads) of a request with seed 7; ``context``: of :class:`RequestContext`, as clock or abort."""
    form = FORMS[kind]
    planned = PlannedRequest(request_id, "p0", {}, seed=7, warmup=False, scheduled_offset_ns=None)
    context = {"concurrency": 1, "scheduled_ns": 1, "abort": AbortSwitch(), **context}
    return await form.send(RequestContext(session, form.url(base_url), planned, payload, options=options, **context))


def drive(plan, base_url, client, folder, on_event=lambda event: None, **more):
    """The recording of a level by the real load worker."""
    return run_level(plan, base_url=base_url, client=client, spool_dir=folder, on_event=on_event, **more)
