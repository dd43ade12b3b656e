"""A fault server in a thread of the test process, and plans to send to it."""

import asyncio
import contextlib
from collections import Counter

import psutil
import pytest
from aiohttp import web
from served import in_a_thread

from omni_bench.load.closed_plan import build_level_plans
from omni_bench.load.plan import plan_levels, size_load
from omni_bench.records.config import ClientConfig, LoadConfig
from omni_bench.records.prompt import Prompt
from omni_bench.targets.null_server import NullServer, Pace


class FaultServer(NullServer):
    """Fails the requests whose ids are in ``faults`` (id -> fault) and counts what it sees."""

    def __init__(self, pace, faults=None):
        super().__init__(pace)
        self.faults = faults or {}
        self.seen = Counter()
        self.peers = set()
        self.in_flight = self.peak_in_flight = 0

    async def stream(self, request, body):
        request_id = request.headers["x-request-id"].partition("-")[2]  # without the prefix of the run
        self.seen[request_id] += 1
        self.peers.add(request.transport.get_extra_info("peername"))
        self.in_flight += 1
        self.peak_in_flight = max(self.peak_in_flight, self.in_flight)
        try:
            match self.faults.get(request_id):
                case "http_500":
                    message = f"boom for key {request.headers.get('Authorization', '')}"
                    return web.json_response({"error": {"message": message}}, status=500)
                case "cut":
                    response = web.StreamResponse(headers={"Content-Type": "audio/pcm"})
                    await response.prepare(request)
                    await response.write(self.chunk)
                    await asyncio.sleep(0.02)
                    request.transport.abort()
                    return response
                case "hang":
                    await asyncio.sleep(3600)
            return await super().stream(request, body)
        finally:
            self.in_flight -= 1


FAST = Pace(first_ms=10, interval_ms=5, chunk_ms=20, chunks=4)


@pytest.fixture
def fault_server():
    """``with fault_server(faults, pace) as (server, base_url)``: served by a thread."""

    @contextlib.contextmanager
    def serve(faults=None, pace=FAST):
        server = FaultServer(pace, faults)
        with in_a_thread(server) as base_url:
            yield server, base_url

    return serve


@pytest.fixture
def client_config():
    return ClientConfig(kind="openai_speech", request_timeout_s=30.0)


@pytest.fixture
def make_plan(client_config):
    """One level: ``make_plan(concurrency, requests, warmup_per_slot)``."""

    def make(concurrency, requests, warmup_per_slot=1):
        load = LoadConfig(
            kind="closed_loop",
            concurrency=[concurrency],
            requests_per_level=requests,
            requests_per_slot=0,
            warmup_per_slot=warmup_per_slot,
        )
        prompts = [
            Prompt(id=f"p{number}", text=f"Sentence number {number}.", ref_text=None, ref_audio=None, language="en")
            for number in range(requests + 64)
        ]
        (plan,) = build_level_plans(prompts, load, client_config)
        return plan

    return make


@pytest.fixture
def open_plan(client_config):
    """One level at ``rate_hz``: ``open_plan(rate_hz, requests, **load)``."""

    def make(rate_hz=50.0, requests=12, **load):
        config = LoadConfig(
            kind="open_loop", rate_hz=[rate_hz], requests_per_level=requests, **{"warmup_requests": 2, **load}
        )
        size = size_load(config)
        prompts = [
            Prompt(id=f"p{number}", text="Hello.", ref_text=None, ref_audio=None, language="en")
            for number in range(size.prompts)
        ]
        (plan,) = plan_levels(prompts, size, config, client_config)
        return plan

    return make


@pytest.fixture
def load_workers():
    """Call it for the load workers that run."""
    return lambda: [one for one in psutil.Process().children() if "omni_bench.load.worker" in one.cmdline()]
