"""Pairs of streams whose every step the test decides."""

from __future__ import annotations

import asyncio
import contextlib

import aiohttp
import pytest

from omni_bench.load.clients.units import Unit
from omni_bench.targets.chaos_proxy.catalogue import StreamCutError
from omni_bench.targets.chaos_proxy.swap import QUEUE_UNITS, StreamSwap


class Source:
    """A server's stream: ``put`` a chunk of audio or a unit, None for its end, an exception to break off."""

    def __init__(self):
        self.queue = asyncio.Queue()
        self.closed = False
        self.read = 0

    def put(self, *items):
        for item in items:
            self.queue.put_nowait(item)

    async def units(self):
        try:
            while (item := await self.queue.get()) is not None:
                if isinstance(item, Exception):
                    raise item
                self.read += 1
                yield item if isinstance(item, Unit) else Unit(item, b"audio")
        finally:
            self.closed = True


class Client:
    """Reads what ``swap`` has for it, in a task."""

    def __init__(self, swap, source, name, reads=True):
        self.got = []
        self.reading = asyncio.Event()
        if reads:
            self.reading.set()
        self.task = asyncio.create_task(self._run(swap, source, name))

    async def _run(self, swap, source, name):
        async with contextlib.aclosing(swap.exchange(source.units(), name)) as units:
            try:
                async for unit in units:
                    self.got.append(unit.wire)
                    await self.reading.wait()
            except StreamCutError:
                self.got.append("cut")


async def settle():
    for _ in range(50):
        await asyncio.sleep(0)


@pytest.fixture
async def pair():
    """Two sources and their clients, swapped after a chunk each."""
    swap = StreamSwap()
    a, b = Source(), Source()
    one, two = Client(swap, a, "one"), Client(swap, b, "two")
    a.put("a0")
    await settle()
    b.put("b0")
    await settle()
    yield swap, (a, b), (one, two)
    for client in (one, two):
        client.task.cancel()
    await asyncio.gather(one.task, two.task, return_exceptions=True)
    await swap.stop()


async def test_from_then_on_each_gets_the_others(pair):
    _, (a, b), (one, two) = pair
    a.put("a1", "a2", None)
    await settle()
    assert two.task.done() and two.got == ["b0", "a1", "a2"]
    assert not one.task.done(), "it waits for the end of the other's"
    b.put("b1", None)
    await one.task
    assert one.got == ["a0", "b1"]
    assert a.closed and b.closed


async def test_a_client_that_leaves_gives_the_other_its_own_back(pair):
    _, (a, b), (one, two) = pair
    b.put("b1")
    await settle()
    one.task.cancel()
    await settle()
    assert a.closed, "nobody wants the rest of it"
    b.put("b2", None)
    await two.task
    assert two.got == ["b0", "b2"] and one.got == ["a0", "b1"]


async def test_a_partner_that_leaves_after_its_own_was_over_is_not_missed():
    swap, a, b = StreamSwap(), Source(), Source()
    one, two = Client(swap, a, "one"), Client(swap, b, "two", reads=False)
    a.put("a0")
    await settle()
    b.put("b0")
    await settle()
    two.reading.clear()
    a.put(None)  # goes to two, who does not read yet
    b.put("b1")
    await settle()
    one.task.cancel()  # leaves while its own is over: two has the end of it in its queue
    two.reading.set()
    await settle()
    assert two.got == ["b0"] and two.task.done()
    await swap.stop()


async def test_a_partner_that_leaves_with_audio_to_come_cuts_the_one_whose_own_is_over():
    swap, a, b = StreamSwap(), Source(), Source()
    one, two = Client(swap, a, "one", reads=False), Client(swap, b, "two")
    a.put("a0")
    await settle()
    b.put("b0")
    await settle()
    b.put("b1", None)  # for one, who does not read
    await settle()
    one.task.cancel()
    await settle()
    assert two.got == ["b0", "cut"] and two.task.done()
    assert a.closed
    await swap.stop()


async def test_a_server_that_breaks_off_cuts_the_one_who_gets_its_audio(pair):
    _, (a, b), (one, two) = pair
    a.put(aiohttp.ClientPayloadError("gone"))
    await two.task
    assert two.got == ["b0", "cut"]
    b.put("b1", None)
    await one.task
    assert one.got == ["a0", "b1"]


async def test_both_leaving_ends_both_servers_streams(pair):
    _, (a, b), (one, two) = pair
    one.task.cancel()
    two.task.cancel()
    await settle()
    assert a.closed and b.closed


async def test_a_third_and_fourth_are_a_pair_of_their_own(pair):
    swap, (a, b), (one, two) = pair
    c, d = Source(), Source()
    three, four = Client(swap, c, "three"), Client(swap, d, "four")
    for source, name in ((c, "c"), (d, "d")):
        source.put(f"{name}0")
        await settle()
    c.put("c1")
    d.put("d1")
    a.put(None)
    b.put(None)
    c.put(None)
    d.put(None)
    await asyncio.gather(one.task, two.task, three.task, four.task)
    assert (three.got, four.got) == (["c0", "d1"], ["d0", "c1"])


async def test_alone_nothing_changes():
    swap, a = StreamSwap(), Source()
    one = Client(swap, a, "one")
    a.put("a0", "a1", None)
    await one.task
    b = Source()
    two = Client(swap, b, "two")  # the first is over: no partner
    b.put("b0", "b1", None)
    await two.task
    assert one.got == ["a0", "a1"] and two.got == ["b0", "b1"]


async def test_a_client_that_does_not_read_holds_up_its_server():
    swap, a = StreamSwap(), Source()
    one = Client(swap, a, "one", reads=False)
    a.put(*range(10 * QUEUE_UNITS), None)
    await settle()
    assert a.read <= QUEUE_UNITS + 3
    one.reading.set()
    await one.task
    assert one.got == list(range(10 * QUEUE_UNITS))


def own(word):
    return Unit(word, own=True)


END = Unit("end", ends=True)


async def test_the_text_of_a_chat_stays_with_it_and_nothing_comes_behind_the_end(pair):
    _, (a, b), (one, two) = pair
    a.put(own("text of a"), "a1", own("more"))
    b.put(own("text of b"), "b1")
    await settle()
    assert one.got == ["a0", "text of a", "more", "b1"] and two.got == ["b0", "a1", "text of b"]
    b.put(END)  # of the audio that one hears
    await settle()
    a.put(own("too late"), END, None)
    b.put(None)
    await asyncio.gather(one.task, two.task)
    assert one.got[-2:] == ["b1", "end"] and two.got[-1] == "end"


async def test_text_for_a_client_that_has_left_holds_up_nobody(pair):
    _, (a, b), (one, two) = pair
    b.put(None)
    await one.task
    a.put(*(own("text") for _ in range(3 * QUEUE_UNITS)), "a1", None)
    await two.task
    assert two.got == ["b0", "a1"]


async def test_a_client_that_leaves_with_its_whole_answer_takes_nothing_from_the_other(pair):
    """It need not wait for the end of the connection, which may take its time."""
    _, (a, b), (one, two) = pair
    a.put("a1", Unit("over", last=True))  # and no end yet
    await settle()
    assert two.got == ["b0", "a1", "over"] and not two.task.done()
    two.task.cancel()
    b.put("b1", Unit("over", last=True), None)
    await settle()
    a.put(None)
    await one.task
    assert one.got == ["a0", "b1", "over"] and a.closed and b.closed


async def test_whose_audio_has_ended_is_no_partner():
    """Between two sentences of a WebSocket audio would be out of place."""
    swap, a, b = StreamSwap(), Source(), Source()
    one, two = Client(swap, a, "one"), Client(swap, b, "two")
    a.put("a0", END)
    await settle()
    b.put("b0")
    await settle()
    b.put("b1", END, None)
    a.put(Unit("over"), None)
    await asyncio.gather(one.task, two.task)
    assert one.got == ["a0", "end", "over"] and two.got == ["b0", "b1", "end"]
