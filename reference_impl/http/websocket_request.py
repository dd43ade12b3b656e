"""What a client may send over the WebSocket of the speech form: JSON in, checked messages out. Pure.

    {"type": "session.config", ...}        the fields of POST /v1/audio/speech, and split_granularity: none, sentence
                                           or clause, what is spoken as soon as it is written
    {"type": "input.text", "text": "..."}  some text, a token or a page
    {"type": "input.done"}                 speak what is left of the text
    {"type": "session.close"}              the end

The form is vllm-omni's. A new session.config holds from the next input.text on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Union

from reference_impl.engine_api import EngineLike
from reference_impl.http.errors import bad_request
from reference_impl.http.speech_request import MAX_INPUT_CHARS, MAX_SEED, Fields, SpeechCall, json_object, speech_call

MESSAGES = ("session.config", "input.text", "input.done", "session.close")
SPLITS = ("none", "sentence", "clause")
MAX_TEXT_CHARS = 65_536  # of one input.text
# White space after it shows that a sentence or a clause is over: more of "3.5", "3,000" or "..." may still come.
# Possessive, and never begun within a run of its own signs, so that no text costs more than its length.
_ENDS = {
    "sentence": re.compile(r"(?<![.?!])[.?!]++[\"')\]]*+\s+|[。？！]++\s*"),
    "clause": re.compile(r"(?<![.?!,;:])[.?!,;:]++[\"')\]]*+\s+|[。？！，、；：]++\s*"),
}


@dataclass(frozen=True)
class Config:
    """How to speak from now on: ``call`` but for its text and seed; ``split`` is one of SPLITS."""

    call: SpeechCall
    split: str


@dataclass(frozen=True)
class Text:
    """Some text to speak."""

    text: str


@dataclass(frozen=True)
class Done:
    """The text so far is whole."""


@dataclass(frozen=True)
class Close:
    """The client ends the session."""


Message = Union[Config, Text, Done, Close]


def parse_message(data: str, engine: EngineLike) -> Message:
    """Check a message against what ``engine`` says of itself.

    Raises ApiError (400) that names the field and its valid values.
    """
    values = json_object(data)
    fields = Fields(values)
    kind = fields.choice("type", MESSAGES)
    if kind == "session.config":
        speech = {**values, "input": "-", "response_format": values.get("response_format") or "pcm"}
        call = speech_call(speech, engine)
        return Config(call, fields.choice("split_granularity", SPLITS, "unsupported") or "none")
    if kind == "input.text":
        text = fields.text("text")
        if text is None:
            raise bad_request("text is missing: the text to speak, a string", "text", "missing")
        if len(text) > MAX_TEXT_CHARS:
            raise bad_request(f"text has {len(text)} characters; at most {MAX_TEXT_CHARS} at once", "text", "too_long")
        return Text(text)
    if kind is None:
        raise bad_request(f"type is missing; valid: {', '.join(MESSAGES)}", "type", "missing")
    return Done() if kind == "input.done" else Close()


class TextBuffer:
    """Collects text until it can be spoken: by sentences, by clauses, or all of it at once (``split``, of SPLITS)."""

    def __init__(self, split: str):
        self._ends = _ENDS.get(split)
        self._text = ""

    def feed(self, text: str) -> list[str]:
        """The utterances that ``text`` completes. Raises ApiError (400) if too much text is waiting."""
        self._text += text
        if self._ends is None:
            _check_length(self._text)
            return []
        spoken, begin = [], 0
        for end in self._ends.finditer(self._text):
            spoken.append(self._text[begin : end.end()].strip())
            begin = end.end()
        self._text = self._text[begin:]
        for one in (*spoken, self._text):
            _check_length(one)
        return [one for one in spoken if one]

    def flush(self) -> list[str]:
        """What is left, as at most one utterance."""
        left, self._text = self._text.strip(), ""
        return [left] if left else []


def utterance(config: Config, text: str, number: int) -> SpeechCall:
    """The call of utterance ``number`` (from 0) of a session: each has a seed of its own, one after the other."""
    return replace(config.call, text=text, seed=(config.call.seed + number) % (MAX_SEED + 1))


def _check_length(text: str) -> None:
    if len(text) > MAX_INPUT_CHARS:
        raise bad_request(
            f"{len(text)} characters to speak at once; at most {MAX_INPUT_CHARS} are allowed", "text", "too_long"
        )
