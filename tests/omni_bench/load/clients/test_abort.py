"""The abort switch ends what is running and what comes later, and nothing else."""

import asyncio

import pytest

from omni_bench.load.clients.abort import AbortReason, AbortSwitch
from omni_bench.records.timeline import RequestError

REASON = AbortReason(in_flight=RequestError("cancelled", "a"), unsent=RequestError("cancelled", "b"))


async def wait_under(switch, seconds=3600.0):
    async with switch.deadline(seconds):
        await asyncio.Event().wait()


async def test_all_that_run_end_at_once():
    switch = AbortSwitch()
    tasks = [asyncio.create_task(wait_under(switch)) for _ in range(5)]
    await asyncio.sleep(0)
    assert switch.reason is None
    switch.trip(REASON)
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [TimeoutError] * 5
    assert switch.reason is REASON


async def test_what_starts_later_ends_at_its_first_wait():
    switch = AbortSwitch()
    switch.trip(REASON)
    with pytest.raises(TimeoutError):
        await wait_under(switch)


async def test_a_block_that_is_over_is_not_touched():
    switch = AbortSwitch()
    async with switch.deadline(3600.0):
        pass
    switch.trip(REASON)
    await asyncio.sleep(0)


async def test_tripping_twice_and_after_a_deadline_has_passed_is_harmless():
    switch = AbortSwitch()
    cleaned_up = False
    with pytest.raises(TimeoutError):
        async with switch.deadline(0.0):
            try:
                await asyncio.Event().wait()
            finally:  # the deadline is passing just now
                switch.trip(REASON)
                switch.trip(AbortReason(REASON.unsent, REASON.in_flight))
                cleaned_up = True
    assert cleaned_up and switch.reason is REASON
