"""The answers of the chat form as bytes: server-sent chunks, or one whole object. Pure functions."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

from reference_impl.engine_api import Finished
from reference_impl.http.chat_request import AUDIO_FORMATS, ChatCall
from reference_impl.http.framing import SAMPLE_WIDTH_BYTES, audio_file, sse_event

DONE = b"data: [DONE]\n\n"
AUDIO_LIFETIME_S = 3600  # stated in OpenAI's form; nothing is kept here


@dataclass(frozen=True)
class ChatWire:
    """Makes the parts of the answer to ``call``; ``answer_id`` and ``created_s`` are in each of them.

    Every chunk says its ``modality``, "text" or "audio", next to ``choices``. The audio of a chunk is
    a file of its own in the client's format, with the number of its samples in
    ``choices[0].audio_metadata``.
    """

    call: ChatCall
    answer_id: str
    created_s: int
    sample_rate_hz: int

    def role(self) -> bytes:
        """The first chunk: the role, and no text yet."""
        return self._chunk("text" if self.call.shows_text else "audio", {"role": "assistant", "content": ""})

    def text(self, token: str) -> bytes:
        """One token."""
        return self._chunk("text", {"content": token})

    def audio(self, pcm: bytes) -> bytes:
        """Some samples, s16le mono."""
        data = self._encoded(pcm)
        delta: dict[str, Any] = {"content": data}
        if self.call.audio_field == "audio":
            delta = {"audio": {"id": self._audio_id(), "data": data}}
        metadata = {
            "format": self.call.audio_format,
            "sample_rate_hz": self.sample_rate_hz,
            "frame_count": len(pcm) // SAMPLE_WIDTH_BYTES,
            "channels": 1,
        }
        return self._chunk("audio", delta, audio_metadata=metadata)

    def end(self, finished: Finished | None) -> bytes:
        """What follows the last token and the last samples; None where nothing was spoken.

        ``metrics`` is where vllm-omni's bench client looks for the number of tokens.
        """
        modality = "text" if finished is None else "audio"
        metrics = {"num_tokens_in": self.call.prompt_tokens, "num_tokens_out": len(self.call.tokens)}
        last = self._chunk(modality, {}, {"metrics": metrics}, finish_reason=self.finish_reason(finished))
        if not self.call.include_usage:
            return last + DONE
        return last + sse_event({**self._head("text"), "choices": [], "usage": self.usage(finished)}) + DONE

    def failure(self, error: dict[str, Any]) -> bytes:
        """An error after the first chunk."""
        return sse_event({"error": error}) + DONE

    def finish_reason(self, finished: Finished | None) -> str:
        """``length`` if the text or the speech was cut, else ``stop``."""
        cut = self.call.cut or (finished is not None and finished.reason == "length")
        return "length" if cut else "stop"

    def usage(self, finished: Finished | None) -> dict[str, Any]:
        """Tokens of the text; the codec frames that were spoken are counted apart."""
        prompt, written = self.call.prompt_tokens, len(self.call.tokens)
        details = {"text_tokens": written, "audio_tokens": finished.frames if finished else 0}
        return {
            "prompt_tokens": prompt,
            "completion_tokens": written,
            "total_tokens": prompt + written,
            "completion_tokens_details": details,
        }

    def whole(self, pcm: bytes, finished: Finished | None) -> dict[str, Any]:
        """The answer that is not streamed, in OpenAI's form."""
        message: dict[str, Any] = {"role": "assistant", "content": self.call.text if self.call.shows_text else None}
        if finished is not None:
            message["audio"] = {
                "id": self._audio_id(),
                "data": self._encoded(pcm),
                "expires_at": self.created_s + AUDIO_LIFETIME_S,
                "transcript": self.call.text,
            }
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self.finish_reason(finished)}
        return {**self._head(None), "choices": [choice], "usage": self.usage(finished)}

    def _head(self, modality: str | None) -> dict[str, Any]:
        kind = "chat.completion" if modality is None else "chat.completion.chunk"
        head = {"id": self.answer_id, "object": kind, "created": self.created_s, "model": self.call.model}
        return head if modality is None else {**head, "modality": modality}

    def _chunk(self, modality: str, delta: dict[str, Any], extra: dict[str, Any] | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": None, **more}
        return sse_event({**self._head(modality), "choices": [choice], **(extra or {})})

    def _encoded(self, pcm: bytes) -> str:
        file = audio_file(pcm, AUDIO_FORMATS[self.call.audio_format], self.sample_rate_hz)
        return base64.b64encode(file).decode()

    def _audio_id(self) -> str:
        return f"audio-{self.answer_id}"
