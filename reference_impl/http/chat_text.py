"""The stand-in for a language model in the chat form: it repeats what the user wrote, token by token.

No language model comes with this server. The stand-in writes the last user message, so that the
chat protocol and the text metrics (TTFT, TPOT, ITL) can be tested against a known answer, and the
speech can be judged against a known text. Its pace is a setting, not a measurement.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

from reference_impl.engine_api import AudioChunk, Event

# The tokens are those of loading.qwen_tokenizer.WordHashTokenizer, about as many as Qwen2 has for English
# text, each with the white space before it, so that together they are the text.
_TOKEN = re.compile(r"\s*(?:[A-Za-z']+|\S)")
_SENTENCE_END = re.compile(r"(?<![.?!])[.?!]++[\"')\]]*+(?=\s|$)|[。？！]+")


def text_tokens(text: str) -> list[str]:
    """Pieces of ``text`` whose concatenation it is: a word or another character each, [] for a blank text."""
    spoken = text.rstrip()  # white space without an end is looked through again from each of its characters
    tokens = _TOKEN.findall(spoken)
    if tokens:
        tokens[-1] += text[len(spoken) :]
    return tokens


def count_tokens(text: str) -> int:
    """How many :func:`text_tokens` there are."""
    return sum(1 for _ in _TOKEN.finditer(text.rstrip()))


def first_sentence_tokens(tokens: Sequence[str]) -> int:
    """How many tokens are written once the first sentence is; all of them if none ends.

    A full stop before white space ends a sentence here, also that of an abbreviation: this says
    when speech may begin, not where it pauses.
    """
    end = _SENTENCE_END.search("".join(tokens))
    if end is None:
        return len(tokens)
    written = 0
    for count, token in enumerate(tokens, start=1):
        written += len(token)
        if written >= end.end():
            return count
    return len(tokens)


async def paced_reply(
    tokens: Sequence[str], token_ms: float, next_event: Callable[[], Awaitable[Event]] | None = None
) -> AsyncGenerator[str | Event, None]:
    """Yield the tokens, and between them what ``next_event`` returns, in the order in which they are due.

    Token i (from 0) is due (i + 1) * ``token_ms`` after the start, however long the reader takes
    with those before it. The first event is fetched when the first sentence has been written;
    events end with the first that is not an :class:`AudioChunk`. Without ``next_event`` there is only
    text. A caller that does not read it to its end must close it (``contextlib.aclosing``).
    """
    gate = first_sentence_tokens(tokens)
    now_s = asyncio.get_running_loop().time
    started_s, written, ended = now_s(), 0, next_event is None
    getting: asyncio.Future[Event] | None = None
    try:
        while written < len(tokens) or not ended:
            if getting is None and not ended and written >= gate:
                assert next_event is not None
                getting = asyncio.ensure_future(next_event())
            wait_s = None
            if written < len(tokens):
                wait_s = max(0.0, started_s + (written + 1) * token_ms / 1000 - now_s())
            if getting is not None:
                await asyncio.wait((getting,), timeout=wait_s)
            elif wait_s is not None:
                await asyncio.sleep(wait_s)
            if getting is not None and getting.done():
                event, getting = getting.result(), None
                ended = not isinstance(event, AudioChunk)
                yield event
            else:
                written += 1
                yield tokens[written - 1]
    finally:
        if getting is not None:
            getting.cancel()
