"""The stand-in for a text model: its tokens, where its first sentence ends, and its pace."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from virtual_time import run_in_virtual_time

from reference_impl.engine_api import AudioChunk, Failed, Finished
from reference_impl.http.chat_text import count_tokens, first_sentence_tokens, paced_reply, text_tokens
from reference_impl.loading.qwen_tokenizer import WordHashTokenizer

CHUNK = AudioChunk(b"\0\0" * 1920, 1)
END = Finished("stop", 2, 7)


def test_tokens_are_words_and_other_characters_with_the_space_before_them():
    assert text_tokens(" It's 7 p.m.\n") == [" It's", " 7", " p", ".", "m", ".\n"]
    assert text_tokens("你好。") == ["你", "好", "。"]
    assert text_tokens(" \n") == text_tokens("") == []


@given(st.text(max_size=200))
def test_tokens_are_the_text_and_those_of_the_tokenizer(text):
    tokens = text_tokens(text)
    assert "".join(tokens) == (text if tokens else "")
    assert len(tokens) == count_tokens(text) == len(WordHashTokenizer(10_000).encode(text))
    assert 0 <= first_sentence_tokens(tokens) <= len(tokens)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("One two. Three.", "One two."),
        ('"Stop!" he said.', '"Stop!"'),
        ("It cost 3.50 euros. Yes.", "It cost 3.50 euros."),
        ("你好。再见。", "你好。"),
        ("No end here", "No end here"),
        ("Really?! Yes.", "Really?!"),
        ("Only one.", "Only one."),
    ],
)
def test_the_first_sentence_is_found(text, sentence):
    tokens = text_tokens(text)
    assert "".join(tokens[: first_sentence_tokens(tokens)]) == sentence


def test_a_page_of_white_space_is_looked_through_once():
    page = " \n" * 300_000
    assert count_tokens(page) == 0 and text_tokens(page) == []
    assert text_tokens(f"a{page}b{page}") == ["a", f"{page}b{page}"]


def test_a_page_of_full_stops_is_looked_through_once():
    tokens = text_tokens("!'" * 30_000 + "x")
    assert first_sentence_tokens(tokens) == len(tokens)


async def collected(*args):
    async with aclosing(paced_reply(*args)) as parts:
        return [part async for part in parts]


def timed(tokens, token_ms, events=(), read_ms=0.0):
    """What comes when, in ms of virtual time: [(ms, part)]. ``events``: [(ms after it is asked for, event)]."""

    async def run(clock):
        coming = iter(events)

        async def next_event():
            after_ms, event = next(coming)
            await asyncio.sleep(after_ms / 1000)
            return event

        got = []
        async with aclosing(paced_reply(tokens, token_ms, next_event if events else None)) as parts:
            async for part in parts:
                got.append((round(clock() / 1e6, 3), part))
                await asyncio.sleep(read_ms / 1000)
        return got

    return run_in_virtual_time(run)


def test_text_alone_comes_at_its_pace():
    assert timed(["a", " b", " c"], 5.0) == [(5, "a"), (10, " b"), (15, " c")]


def test_without_a_pace_it_comes_at_once():
    assert timed(["a", " b"], 0.0) == [(0, "a"), (0, " b")]


def test_speech_waits_for_the_first_sentence_and_then_mixes_with_the_text():
    got = timed(["One", ".", " Two", " three", "."], 10.0, [(1, CHUNK), (11, CHUNK), (13, END)])
    assert got == [(10, "One"), (20, "."), (21, CHUNK), (30, " Two"), (32, CHUNK), (40, " three"), (45, END), (50, ".")]


def test_speech_goes_on_after_the_text():
    assert timed(["One", "."], 1.0, [(50, CHUNK), (50, END)]) == [(1, "One"), (2, "."), (52, CHUNK), (102, END)]


def test_a_failure_of_the_speech_ends_the_events_but_not_the_text():
    failed = Failed("broken")
    got = timed(["One", ".", " Two"], 10.0, [(0, failed)])
    assert got == [(10, "One"), (20, "."), (20, failed), (30, " Two")]


def test_a_slow_reader_does_not_stretch_the_reply():
    got = timed(["a"] * 5, 10.0, read_ms=25.0)
    assert got == [(10, "a"), (35, "a"), (60, "a"), (85, "a"), (110, "a")]
    assert timed(["a"] * 3, 10.0, read_ms=9.0) == [(10, "a"), (20, "a"), (30, "a")]


async def test_an_error_of_the_source_is_raised():
    async def next_event():
        raise RuntimeError("gone")

    with pytest.raises(RuntimeError, match="gone"):
        await collected(["One", "."], 0.0, next_event)


async def test_closing_it_leaves_no_task_behind():
    waiting = asyncio.Event()

    async def next_event():
        waiting.set()
        await asyncio.Event().wait()

    before = asyncio.all_tasks()
    reply = paced_reply(["One", ".", " Two"], 1.0, next_event)
    for _ in range(3):
        await anext(reply)
    await waiting.wait()
    await reply.aclose()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
