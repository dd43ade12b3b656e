"""What an answer should have said, and what is wrong with it by itself."""

from __future__ import annotations

from omni_bench.clients.forms import Asked
from omni_bench.clients.timeline import Timeline
from omni_bench.datasets.prompt import Prompt
from omni_bench.metrics.validity import audio_faults, delivery_faults, in_order

SPEECH = Asked()


def spoken_text(timeline: Timeline, prompt: Prompt) -> str:
    """What is to be heard: the text of the reply if there is one, else that of the prompt."""
    return timeline.reply_text if timeline.reply_text and timeline.reply_text.strip() else prompt.text


def other_prompt_text(timeline: Timeline, prompt: Prompt) -> str | None:
    """What was asked for, None where that is what is to be heard."""
    return None if spoken_text(timeline, prompt) == prompt.text else prompt.text


def answer_faults(timeline: Timeline, prompt: Prompt, pcm: bytes | None, asked: Asked) -> tuple[str, ...]:
    """What is wrong with an answer to ``asked``, by the names of the validity checks.

    ``pcm``: its samples as received, None if they were not kept. An answer of text alone is held to no rule of audio.
    """
    if not timeline.ok:
        return ()  # a failure already, counted by its kind
    has_text = bool(timeline.reply_text and timeline.reply_text.strip())
    faults = ("no_text",) if asked.text and not has_text else ()
    if not asked.audio and not timeline.audio_bytes:
        return faults
    if pcm is None or timeline.sample_rate_hz is None:
        # The samples were lost with the load worker (a run that was cut off); their number was not.
        return in_order((*faults, "unchecked" if timeline.audio_bytes else "empty"))
    text = spoken_text(timeline, prompt) if has_text or asked.scripted else None
    found = audio_faults(pcm, timeline.sample_rate_hz, text, prompt.language)
    return in_order((*faults, *found, *delivery_faults(timeline)))
