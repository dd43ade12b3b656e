"""The lag of the event loop is of time, not of samples."""

import asyncio
import socket
import threading
import time
from types import SimpleNamespace

import pytest

from omni_bench.load import lag as lag_module
from omni_bench.load.lag import CpuClock, LagSampler, StampedLoop, fill_in, summarise_lag
from omni_bench.records.recording import CpuWait, LoopLag


def test_missed_samples_are_filled_in():
    assert fill_in([0.5, 12.0, 5.0], every_ms=5.0) == [0.5, 12.0, 7.0, 2.0, 5.0]


def test_one_long_block_weighs_by_its_length():
    lag = summarise_lag([0.0] * 99 + [500.0], every_ms=5.0)
    assert lag.samples == 199
    assert lag.p50_ms == pytest.approx(5.0)
    assert lag.max_ms == 500.0
    assert lag.p99_ms == pytest.approx(490.1)


def test_no_sample_and_one_sample():
    assert summarise_lag([]) is None
    assert summarise_lag([3.0]) == LoopLag(p50_ms=3.0, p99_ms=3.0, max_ms=3.0, samples=1)


async def test_a_blocked_loop_is_seen_even_if_it_is_never_free_again():
    async with LagSampler() as sampler:
        await asyncio.sleep(0)  # the sampler goes to sleep
        time.sleep(0.1)
    lag = sampler.result()
    assert lag.max_ms >= 95 - 5
    assert lag.samples >= 15


async def test_a_level_shorter_than_a_sleep_of_the_sampler_has_one_sample():
    async with LagSampler() as sampler:
        pass
    assert sampler.result().samples >= 1


def test_a_sampler_that_was_not_used_has_no_result():
    assert LagSampler().result() is None


def test_what_is_left_of_the_lag_without_the_waits_for_a_cpu(monkeypatch):
    monkeypatch.setattr(lag_module.os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(lag_module.os, "cpu_count", lambda: 2)
    late = [0.0] * 99 + [40.0]
    waits = [0.0] * 98 + [3.0, 38.0]
    cpu = summarise_lag(late, 5.0, waits, with_server=True).cpu
    assert cpu == CpuWait(wait_s=0.041, lag_p99_ms=pytest.approx(0.02), cores=2, with_server=True)
    monkeypatch.setattr(lag_module.os, "cpu_count", lambda: 8)
    assert summarise_lag(late, 5.0, waits, with_server=True).cpu.with_server is False, "bound to cores of its own"
    assert summarise_lag(late, 5.0, [*waits[:-1], None]).cpu is None, "one reading is missing"


@pytest.mark.parametrize("text", ["0 0 0\n", "1 2\n", "a b c\n", None])
def test_a_system_that_does_not_tell_how_long_a_thread_waits(text, tmp_path, monkeypatch):
    if text is not None:
        (tmp_path / "schedstat").write_text(text)
    monkeypatch.setattr(lag_module, "SCHEDSTAT", str(tmp_path / "schedstat"))
    clock = CpuClock()
    assert clock.waited_ms() is None
    clock.close()


def test_the_wait_is_the_second_figure(tmp_path, monkeypatch):
    (tmp_path / "schedstat").write_text("5000000 2500000 7\n")
    monkeypatch.setattr(lag_module, "SCHEDSTAT", str(tmp_path / "schedstat"))
    clock = CpuClock()
    assert clock.waited_ms() == 2.5
    clock.close()
    assert clock.waited_ms() is None


@pytest.mark.parametrize("hand_over_s", [0, 0.002], ids=["one", "burst"])
def test_the_lag_of_a_read_is_that_of_its_own_bytes(hand_over_s, monkeypatch):
    """Bytes that wait behind 40 ms of other work are late by those; bytes that a sleeping loop wakes up for are not.

    Also in a burst, which takes the selector longer to hand over.
    """
    select = lag_module.selectors.DefaultSelector.select

    def slow(self, timeout=None):
        if found := select(self, timeout):
            time.sleep(hand_over_s)
        return found

    monkeypatch.setattr(lag_module.selectors.DefaultSelector, "select", slow)
    reader, writer = socket.socketpair()

    async def scenario():
        loop = asyncio.get_running_loop()
        stream, _ = await asyncio.open_connection(sock=reader)
        # by another thread: a loop that has a timer may awake late for it on a busy machine, and would not know why
        threading.Timer(0.3, writer.send, (b"a",)).start()
        await stream.readexactly(1)
        awake_ms = loop.lag_ns(time.perf_counter_ns()) / 1e6
        await asyncio.sleep(0.02)
        writer.send(b"b")
        time.sleep(0.04)
        await stream.readexactly(1)
        return awake_ms, loop.lag_ns(time.perf_counter_ns()) / 1e6

    with asyncio.Runner(loop_factory=StampedLoop) as runner:
        awake_ms, busy_ms = runner.run(scenario())
    writer.close()
    assert awake_ms < 150 and 40 <= busy_ms < 300


@pytest.mark.parametrize("looks_first", [False, True], ids=["before_it_looks", "after_it_looked"])
def test_a_thread_that_was_stopped_while_its_loop_slept_was_late(looks_first, monkeypatch):
    """Stopped, or without a CPU, for 120 ms in the selector: what came meanwhile waited so long, not since it awoke."""
    reader, writer = socket.socketpair()
    stops = []
    select = lag_module.selectors.DefaultSelector.select

    def stopped(self, timeout=None):
        if not stops or not timeout:
            return select(self, timeout)
        stops.clear()
        found = select(self, 0) if looks_first else None
        writer.send(b"b")
        time.sleep(0.12)
        return select(self, timeout) if found is None else found

    async def scenario():
        loop = asyncio.get_running_loop()
        stream, _ = await asyncio.open_connection(sock=reader)
        async with LagSampler():
            loop.call_later(0.02, writer.send, b"a")
            await stream.readexactly(1)
            awake_ms = loop.lag_ns(time.perf_counter_ns()) / 1e6
            stops.append(True)
            await stream.readexactly(1)
            return awake_ms, loop.lag_ns(time.perf_counter_ns()) / 1e6

    monkeypatch.setattr(lag_module.selectors.DefaultSelector, "select", stopped)
    with asyncio.Runner(loop_factory=StampedLoop) as runner:
        awake_ms, stopped_ms = runner.run(scenario())
    writer.close()
    assert awake_ms < 100 and 119 <= stopped_ms < 300


@pytest.mark.parametrize(("waited_ms", "late_ms"), [(0.0, 30), (12.0, 30), (25.0, 25)])
def test_a_wait_for_a_cpu_that_the_system_counts_is_the_lag_and_any_other_delay_the_whole_sleep(
    waited_ms, late_ms, monkeypatch
):
    counted, now_ms = iter([0.0, waited_ms]), [1000]
    monkeypatch.setattr(lag_module, "time", SimpleNamespace(perf_counter_ns=lambda: now_ms[0] * 1_000_000))
    monkeypatch.setattr(lag_module.CpuClock, "waited_ms", lambda self: next(counted))

    def overslept(self, timeout=None):
        now_ms[0] += 30 if timeout else 0
        return []

    monkeypatch.setattr(lag_module.selectors.DefaultSelector, "select", overslept)
    with lag_module._StampedSelector() as selector:
        selector.select(0.005)
        selector.select(0)
        assert now_ms[0] - selector.read_since_ns / 1e6 == late_ms
