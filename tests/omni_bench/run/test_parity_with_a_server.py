"""The parity check over the wire: the real load worker and a server that answers otherwise in company."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest
from aiohttp import web
from served import in_a_thread

from omni_bench.accuracy.parity.compare import compare_run_answers
from omni_bench.load.clients.urls import speech_url
from omni_bench.records.run_folder import RunFolder
from omni_bench.run.orchestrate import run
from omni_bench.selftest.evidence import read_parity_answers

FRAME, CODEBOOKS = 1920, 16
FRAMES_PER_S = 12.5


def stored(wire_id: str) -> str:
    """The id without the prefix of the run."""
    return wire_id.partition("-")[2]


class CompanyServer:
    """``spoils``: requests in company get another code at ``place``. ``fickle``: no answer is like another.

    ``hands_out_codes``: at the reference server's endpoint. ``spoiled``: measured request -> who was in flight when
    the frame was spoken.
    """

    def __init__(self, *, spoils: bool = False, fickle: bool = False, hands_out_codes: bool = True):
        self.spoils, self.fickle, self.hands_out_codes = spoils, fickle, hands_out_codes
        self.place = (3, 5)
        self.codes: dict[str, np.ndarray] = {}
        self.spoiled: dict[str, set[str]] = {}
        self.in_flight: set[str] = set()
        self._served = 0

    async def speech(self, request: web.Request) -> web.StreamResponse:
        body, name = await request.json(), request.headers["x-request-id"]  # that of the wire
        self.in_flight.add(name)
        self._served += 1
        try:
            frames = max(6, round(len(body["input"]) / 14 * FRAMES_PER_S))
            seed = self._served if self.fickle else body["seed"]
            codes = np.random.default_rng(seed).integers(0, 20, (frames, CODEBOOKS))
            response = web.StreamResponse(headers={"Content-Type": "audio/pcm"})
            await response.prepare(request)
            for frame in range(frames):
                await asyncio.sleep(0.02 if frame < 5 else 0)
                if self.spoils and frame == self.place[0] and len(self.in_flight) > 1:
                    codes[self.place] += 50
                    if "-w" not in name:  # of the warm-up
                        neighbours = self.in_flight - {name}
                        self.spoiled[stored(name)] = {stored(one) for one in neighbours}
                await response.write(self._audio(codes[frame]))
            self.codes[name] = codes
            self.in_flight.discard(name)
            await asyncio.sleep(0.05)  # who was in company here is still so when the client reads the frame
            await response.write_eof()
            return response
        finally:
            self.in_flight.discard(name)

    @staticmethod
    def _audio(codes: np.ndarray) -> bytes:
        """A frame of whole periods of a tone, so that frames join without a step; its level is the sum of the codes."""
        tone = np.sin(2 * np.pi * 250 / 24000 * np.arange(FRAME))
        return ((2000 + 25 * codes.sum()) * tone).astype("<i2").tobytes()

    async def get_codes(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if not self.hands_out_codes or name not in self.codes:
            raise web.HTTPNotFound
        codes = self.codes[name]
        answer = {"request_id": name, "frames": len(codes), "codebooks": CODEBOOKS, "codes": codes.tolist()}
        return web.json_response(answer)

    def application(self) -> web.Application:
        app, path = web.Application(), speech_url("")
        app.add_routes([web.post(path, self.speech), web.get(path + "/{name}/codes", self.get_codes)])
        return app


@pytest.fixture
def measure(config, target, tmp_path):
    """``measure(server, name)``: a run of one level of two slots against it, compared by four requests."""
    config.checks.parity_requests = 4
    config.checks.signal = False
    config.asr.kind = "none"
    config.load.requests_per_level = 4
    config.load.lag_budget_ms = 10_000.0
    config.output.save_audio = "all"

    def measure(server: CompanyServer, name: str = "run") -> tuple[dict, Path]:
        with in_a_thread(server) as target.base_url:
            document = run(config, tmp_path / name).run
        return document["levels"][0]["parity"], tmp_path / name

    return measure


def comparisons(run_dir: Path) -> list[dict]:
    records = [json.loads(line) for line in (run_dir / "parity.jsonl").read_text().splitlines()]
    return [record for record in records if not record["repeat"]]


def test_answers_that_company_changes_are_found_with_place_and_neighbours(measure):
    server = CompanyServer(spoils=True)
    parity, run_dir = measure(server)
    assert server.spoiled, "two slots overlap"
    found = {record["request_id"]: record for record in comparisons(run_dir) if not record["equal"]}
    assert set(found) == set(server.spoiled)
    assert (parity["kind"], parity["mismatches"], parity["repeatable"]) == ("codes", len(found), True)
    for name, record in found.items():
        assert (record["first_frame"], record["first_codebook"]) == server.place
        assert record["first_sample"] // 1920 == 3 and record["at_s"] == pytest.approx(0.24)
        neighbours = {one["request_id"] for one in record["neighbours"]}
        assert len(server.spoiled[name]) == 1 and server.spoiled[name] <= neighbours
    first = parity["first"]
    assert first["first_frame"] == 3 and first["neighbours"]
    assert all((run_dir / "audio" / f"solo-{name}.wav").is_file() for name in found)


def test_without_codes_the_samples_tell_where(measure):
    server = CompanyServer(spoils=True, hands_out_codes=False)
    parity, run_dir = measure(server)
    found = {record["request_id"]: record for record in comparisons(run_dir) if not record["equal"]}
    assert parity["kind"] == "pcm" and set(found) == set(server.spoiled)
    assert all(record["first_frame"] is None and record["first_sample"] // 1920 == 3 for record in found.values())


def test_a_server_that_never_repeats_itself_is_not_accused(measure):
    parity, _ = measure(CompanyServer(fickle=True))
    assert parity["repeatable"] is False and parity["differ"] == 4
    assert parity["kind"] == "transcript" and parity["mismatches"] is None and parity["first"] is None


def test_two_runs_are_compared_by_prompt_and_seed(measure):
    _, clean = measure(CompanyServer(), "clean")
    server = CompanyServer(spoils=True)
    _, faulty = measure(server, "faulty")
    found = compare_run_answers(read_parity_answers(RunFolder.open(faulty)), read_parity_answers(RunFolder.open(clean)))
    assert len(found) == 4 and all(one.kind == "codes" and one.request_id == one.solo_id for one in found)
    assert {one.request_id for one in found if not one.equal} == set(server.spoiled)
    alone = compare_run_answers(
        read_parity_answers(RunFolder.open(faulty), alone=True), read_parity_answers(RunFolder.open(clean))
    )
    assert alone and all(one.equal for one in alone)
