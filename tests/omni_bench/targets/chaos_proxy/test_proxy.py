"""Every fault through the real client: a named error, a named invalid reason, or exactly the damage it announces."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import aiohttp
import pytest
from aiohttp import web

from omni_bench.load.clients.abort import AbortReason, AbortSwitch
from omni_bench.records.timeline import RequestError
from omni_bench.targets.chaos_proxy.catalogue import WIRE_FAULTS
from omni_bench.targets.chaos_proxy.proxy import ChaosProxy, serving
from omni_bench.targets.probe import free_port, get


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


def hit_ids(caplog):
    return [record.args[1] for record in caplog.records if record.msg.endswith("%s: request %s")]


async def post(at, **how):
    """(status, body) of a speech request that is not the harness's."""
    async with aiohttp.ClientSession() as session, session.post(f"{at.base_url}/v1/audio/speech", **how) as answer:
        return answer.status, await answer.read()


async def test_a_stall_ends_at_the_deadline_of_the_request(bench, options):
    async with bench("stall") as at:
        timeline, _ = await at.ask(options=replace(options, request_timeout_s=0.3))
        assert timeline.error.message.startswith("not finished after client.request_timeout_s=0.3 s; what came: ")


async def test_a_stall_that_is_short_enough_goes_on(bench, speech):
    async with bench("stall", stall_s=0.3) as at:
        timeline, audio = await at.ask()
        assert timeline.ok and audio == speech("c1-0000")


async def test_an_abort_during_a_stall_keeps_its_own_name(bench):
    async with bench("stall") as at:
        abort, gone = AbortSwitch(), RequestError("cancelled", "interrupted")
        asking = asyncio.create_task(at.ask(abort=abort))
        await until(lambda: at.upstream.headers)
        abort.trip(AbortReason(gone, gone))
        timeline, _ = await asking
        assert timeline.error == gone


async def test_a_stream_of_one_chunk(bench, make_upstream):
    """Nothing to drop; but what is to break still breaks."""
    blob = b"\x10\x20" * 12_000

    async def whole(request, server):
        return web.Response(body=blob, headers={"Content-Type": "audio/pcm"})

    expected = {
        "drop_chunk": None,
        "duplicate_chunk": None,
        "cut": "disconnected",
        "in_band_error": "in_band_error",
        "header_first": "content_type",
    }
    for fault, kind in expected.items():
        async with bench(fault, make_upstream(whole)) as at:
            timeline, audio = await at.ask()
            assert (timeline.error.kind if timeline.error else None) == kind, fault
            assert kind is not None or audio == blob


async def test_one_after_another_never_crash(bench, speech):
    async with bench("crash_at_c3") as at:
        for number in range(4):
            timeline, audio = await at.ask(f"c1-{number}")
            assert timeline.ok and audio == speech(f"c1-{number}")
        assert at.crashes == []


async def test_what_is_not_hit_passes_as_it_was(bench, speech):
    """Body, chunk boundaries, headers of the answer and of the request."""
    async with bench("cut") as at:
        await at.ask("c1-hit")
        timeline, audio = await at.ask("c1-0001")
        assert audio == speech("c1-0001")
        assert [samples * 2 for _, samples in timeline.http_chunks] == [len(c) for c in speech.chunks("c1-0001")]
        sent = at.upstream.headers[-1]
        assert sent["x-request-id"] == "c1-0001" and sent["Accept-Encoding"] == "identity"
        assert at.upstream.bodies[-1] == b'{"input": "Hi, you."}'
        async with aiohttp.ClientSession() as session:
            url = f"{at.base_url}/v1/audio/speech"
            headers = {"x-request-id": "c1-0003", "Authorization": "Bearer key"}
            await (await session.post(url, json={}, headers=headers)).release()
            async with session.post(url, json={}, headers=headers) as answer:
                assert answer.headers["x-request-id"] == "c1-0003" and answer.headers["x-seed"] == "7"
                assert answer.headers["Content-Type"] == "audio/pcm; rate=24000"
                assert await answer.read() == speech("c1-0003")
            assert at.upstream.headers[-1]["Authorization"] == "Bearer key"


async def test_other_paths_and_methods_pass(bench, caplog):
    async with bench("http_500") as at, aiohttp.ClientSession() as session:
        async with session.get(f"{at.base_url}/health") as answer:
            assert answer.status == 200 and await answer.json() == {"status": "ok"}
        async with session.get(f"{at.base_url}/v1/audio/speech/c1-0000/codes") as answer:
            assert await answer.json() == {"id": "c1-0000"} and answer.headers["x-codes"] == "1"
        url = aiohttp.client.URL(f"{at.base_url}/echo/a%2Fb%20c?x=%26&y=1", encoded=True)
        async with session.put(
            url, data=b"\x00\xff", headers={"x-mine": "1", "Connection": "x-hop", "x-hop": "1"}
        ) as a:
            seen = await a.json()
            assert (a.status, a.reason) == (418, "Short and stout")
            assert a.headers.getall("x-many") == ["one", "two"] and a.headers["Server"] == "upstream/1"
        assert seen["method"] == "PUT" and seen["path"] == "/echo/a%2Fb%20c?x=%26&y=1" and seen["body"] == "\x00\xff"
        names = {name.lower() for name, _ in seen["headers"]}
        assert "x-mine" in names and "x-hop" not in names
        async with session.head(f"{at.base_url}/health") as answer:
            assert answer.status == 200 and await answer.read() == b""
            assert int(answer.headers["Content-Length"]) > 0
        async with session.get(f"{at.base_url}/nowhere") as answer:
            assert answer.status == 404
    assert hit_ids(caplog) == []


async def test_an_answer_with_a_length_keeps_it(bench, make_upstream):
    async def whole(request, server):
        return web.Response(body=bytes(range(1, 251)) * 8, headers={"Content-Type": "audio/pcm"})

    async with bench("cut", make_upstream(whole)) as at:
        await at.ask()
        async with aiohttp.ClientSession() as session, session.post(f"{at.base_url}/v1/audio/speech") as answer:
            assert answer.headers["Content-Length"] == "2000" and "Transfer-Encoding" not in answer.headers
            assert await answer.read() == bytes(range(1, 251)) * 8


async def test_answers_that_are_no_audio_are_not_damaged(bench, make_upstream):
    async def refuse(request, server):
        return web.json_response({"error": {"message": "no such voice"}}, status=400)

    async def whole(request, server):
        return web.json_response({"choices": []})

    async def compressed(request, server):
        return web.Response(body=b"samples?", headers={"Content-Type": "audio/pcm", "Content-Encoding": "zstd"})

    for name in WIRE_FAULTS.keys() - {"http_500"}:
        async with bench(name, make_upstream(refuse)) as at:
            timeline, _ = await at.ask()
            assert timeline.error == RequestError("http_status", "HTTP 400: no such voice"), name
        async with bench(name, make_upstream(whole)) as at:
            assert await post(at) == (200, b'{"choices": []}'), name
        async with (
            bench(name, make_upstream(compressed)) as at,
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.post(f"{at.base_url}/v1/audio/speech") as answer,
        ):
            assert await answer.read() == b"samples?", name


async def test_a_server_that_breaks_off_is_broken_off(bench, make_upstream):
    async def broken(request, server):
        response = web.StreamResponse(headers={"Content-Type": "audio/pcm"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(b"\x01\x02" * 400)
        await asyncio.sleep(0.05)
        request.transport.abort()
        return response

    for fault in ("swap_streams", "slow_drip", "crash_at_c3"):
        async with bench(fault, make_upstream(broken)) as at:
            timeline, audio = await at.ask()
            assert timeline.error is not None and timeline.error.kind == "disconnected", fault
            assert audio == b"\x01\x02" * 400


async def test_a_server_that_is_not_there_is_a_502(bench):
    proxy = ChaosProxy(f"http://127.0.0.1:{free_port('127.0.0.1')}", WIRE_FAULTS["cut"], on_crash=lambda: None)
    async with serving(proxy, "127.0.0.1", 0) as (host, port):
        answer = await asyncio.to_thread(get, f"http://{host}:{port}/health", 5.0)
        assert answer.status == 502


@pytest.mark.parametrize("fault", ["cut", "swap_streams", "stall", "drop_chunk"])
async def test_a_client_that_hangs_up_takes_its_request_with_it(bench, fault):
    async with bench(fault, stall_s=0.01) as at:
        await at.ask("c1-0000")  # of those that hit every second one, the next is not hit
        await until(lambda: at.upstream.in_flight == 0)
        at.upstream.cancelled.clear()
        at.upstream.gate.clear()
        abort, gone = AbortSwitch(), RequestError("cancelled", "interrupted")
        asking = asyncio.create_task(at.ask("c1-0001", abort=abort))
        await until(lambda: at.upstream.in_flight == 1)
        abort.trip(AbortReason(gone, gone))
        assert (await asking)[0].error == gone
        await until(lambda: at.upstream.in_flight == 0)
        assert at.upstream.cancelled == ["c1-0001"]


async def test_a_body_beyond_the_bound_is_refused(bench, monkeypatch):
    monkeypatch.setattr("omni_bench.targets.chaos_proxy.proxy.MAX_BODY_BYTES", 1000)
    async with bench("cut") as at:
        status, _ = await post(at, data=b"x" * 2000)
        assert status == 413
        assert at.upstream.bodies == []


async def test_a_request_id_cannot_forge_a_line_of_the_log(bench, caplog):
    caplog.set_level(logging.WARNING)
    async with bench("http_500") as at:
        reader, writer = await asyncio.open_connection(*at.base_url.removeprefix("http://").split(":"))
        writer.write(b"POST /v1/audio/speech HTTP/1.0\r\nx-request-id: \xc2\x9b2J" + b"b" * 500 + b"\r\n\r\n")
        assert b"500" in await reader.readline()
        writer.close()
    (shown,) = hit_ids(caplog)
    assert shown.isascii() and shown.isprintable() and len(shown) == 80


@pytest.mark.parametrize("fault", ["cut", "in_band_error"])
async def test_what_is_broken_is_not_generated_to_its_end(bench, fault):
    async with bench(fault) as at:
        at.upstream.gate.clear()
        timeline, _ = await at.ask()
        assert timeline.error is not None and timeline.error.kind in WIRE_FAULTS[fault].detectors
        await until(lambda: at.upstream.in_flight == 0)
        assert at.upstream.cancelled == ["c1-0000"]
