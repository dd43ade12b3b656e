"""An engine in a process of its own, as the HTTP process uses it; the life of the processes is in test_server.py."""

from __future__ import annotations

import asyncio
import queue
import socket
import threading
from dataclasses import replace

import fake_engine as fake
import hosted_engine as hosted
import numpy as np
import pytest

from omni_bench.errors import EngineError
from reference_impl.engine_api import AudioChunk, EngineDead, Failed, Finished, QueueFull, SpeechRequest
from reference_impl.remote import wire
from reference_impl.remote.client import EngineProcess
from reference_impl.remote.process import Outbox
from reference_impl.settings import ServerSettings

REQUEST = SpeechRequest("r.1", "Hello.", "alba", seed=5)


@pytest.fixture
async def start():
    """Host a fake engine of ``options``; returns (remote engine, host)."""
    hosts = []

    async def _start(engine=None, **options):
        host = hosted.HostThread(engine or fake.FakeEngine(**options))
        remote = await host.remote()
        hosts.append((remote, host))
        return remote, host

    yield _start
    for remote, host in hosts:
        await asyncio.to_thread(remote.stop)
        host.engine.stop()


async def spoken(events: asyncio.Queue) -> list:
    heard = [await events.get()]
    while isinstance(heard[-1], AudioChunk):
        heard.append(await events.get())
    return heard


async def test_events_come_in_order_in_the_thread_of_the_event_loop(start):
    codes = np.arange(48, dtype=np.int16).reshape(3, 16)
    remote, host = await start(codes=codes)
    events, threads = asyncio.Queue(), set()

    def on_event(event):
        threads.add(threading.get_ident())
        events.put_nowait(event)

    await remote.submit_async(REQUEST, on_event)
    *chunks, end = await spoken(events)
    assert b"".join(chunk.pcm for chunk in chunks) == host.engine.expected(5) and [c.frames for c in chunks] == [1] * 3
    assert replace(end, codes=None) == Finished("stop", 3, 7) and np.array_equal(end.codes, codes)
    assert threads == {threading.get_ident()}
    assert host.engine.requests == [REQUEST]
    assert remote.stats() == host.engine.stats()


async def test_other_threads_may_submit_and_cancel(start):
    remote, host = await start(gated=True)
    events = queue.SimpleQueue()
    await asyncio.to_thread(remote.submit, REQUEST, events.put)
    assert isinstance(await asyncio.to_thread(events.get, True, 10), AudioChunk)
    await asyncio.to_thread(remote.cancel, REQUEST.request_id)
    assert await asyncio.to_thread(host.engine.cancel_seen.wait, 10)
    host.engine.release()
    assert await asyncio.to_thread(events.get, True, 10) == Finished("cancelled", 1, 7)
    remote.cancel("nobody")
    host.engine.refuse = fake.REFUSALS["queue_full"]
    with pytest.raises(QueueFull, match="256 requests are waiting"):
        await asyncio.to_thread(remote.submit, REQUEST, events.put)


async def test_a_submission_that_is_given_up_is_cancelled_in_the_engine(start):
    class Slow(fake.FakeEngine):
        may_take = threading.Event()

        def submit(self, request, on_event):
            self.may_take.wait(10)
            super().submit(request, on_event)

    engine = Slow(gated=True, hang_first=True)
    remote, _ = await start(engine)
    task = asyncio.create_task(remote.submit_async(REQUEST, lambda event: None))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    engine.may_take.set()
    assert await asyncio.to_thread(engine.cancel_seen.wait, 10)
    assert engine.cancelled == [REQUEST.request_id]


async def test_an_unexpected_error_in_the_engine_is_logged_there(start, caplog):
    remote, _ = await start(refuse=fake.REFUSALS["unexpected"])
    with pytest.raises(EngineError):
        await remote.submit_async(REQUEST, lambda event: None)
    assert "r.1: the engine failed to take it" in caplog.text and "secret detail" in caplog.text


async def test_a_process_that_vanishes_fails_all_that_is_open(start, caplog):
    remote, host = await start(gated=True)
    events = asyncio.Queue()
    for number in range(2):  # the second waits in the engine
        await remote.submit_async(replace(REQUEST, request_id=f"r.{number}"), events.put_nowait)
    assert isinstance(await events.get(), AudioChunk)
    before = remote.stats()
    host.vanish()
    assert [await events.get(), await events.get()] == [Failed("the engine has ended")] * 2
    after = remote.stats()
    assert (after.alive, after.running, after.waiting) == (False, 0, 0)
    assert after.failed_total == before.failed_total + 2
    with pytest.raises(EngineDead):
        await remote.submit_async(REQUEST, events.put_nowait)
    with pytest.raises(EngineDead):
        await asyncio.to_thread(remote.submit, REQUEST, events.put_nowait)
    remote.cancel("r.0")


async def test_a_submission_that_waits_when_the_process_vanishes_is_refused(start):
    class Deaf(fake.FakeEngine):
        def submit(self, request, on_event):
            self.submit_seen.set()
            threading.Event().wait(2)

    remote, host = await start(Deaf())
    task = asyncio.create_task(remote.submit_async(REQUEST, lambda event: None))
    assert await asyncio.to_thread(host.engine.submit_seen.wait, 10)
    host.vanish()
    with pytest.raises(EngineDead):
        await task


async def test_what_cannot_be_understood_ends_the_connection(start, caplog):
    remote, host = await start(gated=True)
    events = asyncio.Queue()
    await remote.submit_async(REQUEST, events.put_nowait)
    assert isinstance(await events.get(), AudioChunk)
    host.say(wire.message(99, b""))
    assert await events.get() == Failed("the engine has ended")
    assert not remote.stats().alive
    assert "a message of kind 99 from the engine" in caplog.text


class Held:
    """A socket whose first message is not taken before it is told to."""

    def __init__(self):
        self.sent, self.taken, self.may_go = [], threading.Event(), threading.Event()

    def sendall(self, data):
        self.taken.set()
        assert self.may_go.wait(10)
        self.sent.append(data)


def outbox_of(connection):
    engine, gone = fake.FakeEngine(), threading.Event()
    return Outbox(connection, engine.stats, gone.set), engine, gone


def items_of(data):
    return list(wire.read_report(wire.take_message(bytearray(data))[1])[1])


def test_what_a_step_says_goes_in_one_message():
    held = Held()
    outbox, engine, gone = outbox_of(held)
    outbox.put(wire.Item(1, wire.CHUNK, 1, b"first"))
    assert held.taken.wait(10)
    step = [wire.Item(number, wire.CHUNK, 1, b"pcm") for number in range(32)]
    for item in step:
        outbox.put(item)
    held.may_go.set()
    outbox.close()
    assert [items_of(data) for data in held.sent] == [[wire.Item(1, wire.CHUNK, 1, b"first")], step]
    assert gone.is_set()
    engine.stop()


def test_a_report_has_a_largest_size(monkeypatch):
    monkeypatch.setattr(wire, "REPORT_BYTES", 100)
    held = Held()
    outbox, engine, _ = outbox_of(held)
    outbox.put(wire.Item(0, wire.CHUNK, 1, b""))
    assert held.taken.wait(10)
    for number in range(5):
        outbox.put(wire.Item(number, wire.CHUNK, 1, bytes(60)))
    held.may_go.set()
    outbox.close()
    sizes = [len(items_of(data)) for data in held.sent]
    assert sum(sizes) == 6 and max(sizes) <= 3
    engine.stop()


def test_counters_are_told_once():
    held = Held()
    held.may_go.set()
    outbox, engine, _ = outbox_of(held)
    for _ in range(5):
        outbox.put(None)
    outbox.close()
    assert len(held.sent) == 1 and items_of(held.sent[0]) == []
    engine.stop()


def test_an_outbox_that_nobody_reads_says_so():
    ours, theirs = socket.socketpair()
    outbox, engine, gone = outbox_of(ours)
    theirs.close()
    outbox.put(wire.Item(1, wire.TAKEN))
    assert gone.wait(10)
    outbox.close()
    engine.stop()
    ours.close()


@pytest.mark.slow
@pytest.mark.parametrize("fault", [None, "empty_ok"])
async def test_the_bundled_voice_says_the_same_from_its_own_process(tiny, fault):
    from reference_impl.engine.engine import Engine
    from reference_impl.loading.from_settings import Origin

    settings = ServerSettings(max_batch=2, max_seq_len=96, deterministic=True, device="cpu", threads=1, fault=fault)
    request = SpeechRequest("r.1", "Please turn the music down.", "heart", seed=3, max_new_tokens=9)
    process = EngineProcess()
    try:
        remote = await asyncio.to_thread(process.load, settings)
        await remote.attach()
        assert remote.fault == fault and remote.describe()["fault"] == fault and remote.describe()["engine_process"]
        events = asyncio.Queue()
        await remote.submit_async(request, events.put_nowait)
        *chunks, end = await spoken(events)
        await asyncio.to_thread(remote.stop)
    finally:
        assert process.end() == "ended with exit code 0"
    engine, here = Engine(tiny, replace(settings, fault=None), Origin(None, None)), queue.SimpleQueue()
    try:
        assert engine.capabilities == remote.capabilities and engine.voices == remote.voices
        engine.submit(request, here.put)
        heard = [here.get(timeout=120)]
        while isinstance(heard[-1], AudioChunk):
            heard.append(here.get(timeout=120))
    finally:
        engine.stop()
    assert np.array_equal(end.codes, heard[-1].codes)
    pcm = b"".join(chunk.pcm for chunk in chunks)
    assert pcm == (b"" if fault else b"".join(chunk.pcm for chunk in heard[:-1]))
