"""From a request to the vectors that the talker reads: sums of a text side and a codec side.

In two steps, because they belong to different threads. :meth:`PromptBuilder.segments` runs in
the caller's: it checks the request and turns text into ids. :meth:`PromptBuilder.build` runs
in the engine's: it turns one segment into vectors on the device.

Layout (``t``: projected text embedding, ``c``: codec embedding; facts from the public
configurations and the behaviour of the official package, see ``reports/parity.md``):

    instruction (optional)    t(<|im_start|>user ... <|im_end|>)
    role                      t(<|im_start|>assistant)
    tags                      t(pad) ..., t(bos)  +  c(language tags), speaker, c(pad)
    then the text, either     t(text), t(eos)     +  c(pad)          all of it at once,
                              t(pad)              +  c(bos)
    or                        t(first token)      +  c(bos)          and one more token a frame

In-context cloning puts the reference's text before the text and the reference's codes after
``c(bos)``. "Trailing" text is what the second form adds to the inputs of the decode steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from reference_impl.engine_api import Capabilities, RequestRejected, SpeechRequest
from reference_impl.loading.checkpoint import Model
from reference_impl.loading.qwen_tokenizer import TextTokenizer
from reference_impl.loading.released_config import TASKS
from reference_impl.model.code_predictor import CodePredictor
from reference_impl.model.config import CodecControl, ModelConfig, TextConfig
from reference_impl.model.talker import Talker
from reference_impl.model.transfers import to_device
from reference_impl.prompt.reference_voice import ReferenceVoices
from reference_impl.prompt.text.split import split_sentences
from reference_impl.prompt.text.spoken import spoken_form

NO_VOICE = "default"  # the one voice of a checkpoint without named speakers
# with random weights nothing ends by itself: an utterance takes as long as a speaker of this pace would need
FORCED_CHARACTERS_PER_S = 14.0
MIN_FORCED_FRAMES = 2


@dataclass(frozen=True)
class TalkerPrompt:
    """A segment as the talker sees it, on the device.

    ``embeds`` [S, H] and their rotary ``positions`` [S]; ``next_position`` of the first frame.
    ``trailing`` [T, H]: what is added to the input of decode steps 0..T-1 (text that is still
    to come); later steps add the builder's ``pad``. ``reference_codes`` [T, 16]: frames that
    Code2Wav decodes silently before the first one (in-context cloning).
    """

    embeds: Tensor
    positions: Tensor
    next_position: int
    trailing: Tensor | None = None
    reference_codes: Tensor | None = None


@dataclass(frozen=True)
class Segment:
    """One piece of a checked request that the talker speaks in one go: ids only.

    ``language_id``, ``speaker_id`` None: no such tag. ``max_frames``: the most frames it may take; ``forced_frames``:
    exactly how many it takes, the end token ignored (None: the end token decides).
    """

    text_ids: tuple[int, ...]
    role_ids: tuple[int, ...]
    language_id: int | None
    speaker_id: int | None
    streaming_text: bool
    max_frames: int
    instruction_ids: tuple[int, ...] = ()
    reference_ids: tuple[int, ...] = ()
    reference_audio: Any = None  # float32 [samples]
    reference_frames: int = 0
    forced_frames: int | None = None

    @property
    def in_context(self) -> bool:
        """Whether the reference's text and codes are part of the prompt."""
        return bool(self.reference_ids)

    @property
    def text_tokens(self) -> int:
        """Ids of text, instruction and reference text."""
        return len(self.text_ids) + len(self.instruction_ids) + len(self.reference_ids)

    @property
    def length(self) -> int:
        """Positions of the prompt."""
        has_speaker = self.speaker_id is not None or self.reference_audio is not None
        tags = 4 + (self.language_id is not None) + has_speaker
        body = 1 + self.reference_frames
        if not self.streaming_text:
            body += len(self.reference_ids) + len(self.text_ids) + 1
        return len(self.instruction_ids) + len(self.role_ids) + tags + body


class PromptBuilder:
    """The text side of a checkpoint.

    ``voices``, ``capabilities``: what it speaks and follows. ``pad`` [H]: added to every decode step without
    trailing text.
    """

    def __init__(self, model: Model):
        self._model, self._config = model, model.config
        self._text: TextConfig = model.config.text
        self._control: CodecControl = model.config.talker.control
        self._tokenizer: TextTokenizer = model.tokenizer
        self._references = ReferenceVoices(model)
        named = self._text.task == "custom_voice"
        self.voices = tuple(self._control.speakers) if named else (NO_VOICE,)
        self.capabilities = capabilities(self._text, self._control)
        self._markers = control_text(model.talker, self._text, model.device)
        self.pad = self._markers[0]

    def segments(self, request: SpeechRequest) -> list[Segment]:
        """The segments of a text: one, unless the checkpoint has a longest text.

        Raises RequestRejected for an unknown voice, language, an unusable reference, or a text with nothing to speak.
        """
        text = request.text.strip()
        if not text:
            raise RequestRejected("input holds nothing to speak", "input")
        control, custom = self._control, self._text.task == "custom_voice"
        if request.voice not in self.voices:
            raise RequestRejected(f"voice {request.voice!r} is unknown; valid: {', '.join(self.voices)}", "voice")
        reference_ids: tuple[int, ...] = ()
        reference_frames = 0
        if self._text.task == "base":
            reference_frames = self._references.check(request)
            if request.reference_text and request.reference_text.strip():
                reference_ids = self._tokenizer.encode(request.reference_text.strip())
        language = language_id(control, request.language, request.voice if custom else None)
        return [
            Segment(
                text_ids=self._tokenizer.encode(piece),
                role_ids=self._tokenizer.assistant_role,
                language_id=language,
                speaker_id=control.speakers[request.voice] if custom else None,
                streaming_text=self._text.task == "base" if request.streaming_text is None else request.streaming_text,
                max_frames=self._most_frames(piece),
                instruction_ids=self._instruction(request.instructions),
                reference_ids=reference_ids,
                reference_audio=request.reference_audio if self._text.task == "base" else None,
                reference_frames=reference_frames if reference_ids else 0,
                forced_frames=forced_frames(piece, self._config) if self._model.forced_lengths else None,
            )
            for piece in self._pieces(text)
        ]

    def _pieces(self, text: str) -> list[str]:
        """The text as this checkpoint reads it: in words and in pieces, if it asks for that."""
        pieces = [spoken_form(text) if self._text.spoken_form else text]
        if self._text.max_chars is not None:
            pieces = [piece.strip(" ,'") for piece in split_sentences(pieces[0], self._text.max_chars)]
            pieces = [p if p[-1] in ".?!" else f"{p}." for p in pieces if any(c.isalnum() for c in p)]
        if not any(pieces):
            raise RequestRejected("input holds nothing this voice can speak (letters, numbers)", "input")
        return pieces

    def _most_frames(self, text: str) -> int:
        if self._text.frames_per_char is None:
            return self._config.max_frames
        return min(self._config.max_frames, int(len(text) * self._text.frames_per_char) + self._text.frames_extra)

    def _instruction(self, text: str | None) -> tuple[int, ...]:
        if not self._text.instructions or not (text and text.strip()):
            return ()
        return self._tokenizer.user_turn(text.strip())

    def build(self, segment: Segment) -> TalkerPrompt:
        """The vectors of one of these segments."""
        model = self._model
        speaker = codes = None
        if segment.reference_audio is not None:
            speaker = self._references.speaker(segment.reference_audio)
            if segment.in_context:
                codes = self._references.codes(segment.reference_audio)
        return layout(segment, model.talker, model.predictor, self._control, self._markers, speaker, codes)

    def build_all(self, segments: list[Segment]) -> list[TalkerPrompt]:
        """The same of several, in fewer operations where none of them clones a recording."""
        if len(segments) == 1 or any(segment.reference_audio is not None for segment in segments):
            return [self.build(segment) for segment in segments]
        return layouts(segments, self._model.talker, self._control, self._markers)

    def warm_up_request(self) -> SpeechRequest:
        """A short request that this checkpoint can speak."""
        audio = self._references.example() if self._text.task == "base" else None
        return SpeechRequest("warm-up", "Ready.", self.voices[0], 0, max_new_tokens=12, reference_audio=audio)


def capabilities(text: TextConfig, control: CodecControl) -> Capabilities:
    """What a checkpoint of this configuration can follow; "en" stands for English.

    A small voice of our own takes every task, so that scenarios of all of them can be tried: it speaks as itself.
    """
    return Capabilities(
        clones=text.task == "base",
        follows_instructions=text.instructions,
        task_types=tuple(TASKS.values()) if text.spoken_form else (TASKS[text.task],),
        languages=("auto", *control.languages, *(("en",) if "english" in control.languages else ())),
    )


def forced_frames(text: str, config: ModelConfig) -> int:
    """Frames of a text spoken at 14 characters a second, at least 2."""
    return max(MIN_FORCED_FRAMES, round(config.frame_rate_hz * len(text) / FORCED_CHARACTERS_PER_S))


def language_id(control: CodecControl, language: str | None, speaker: str | None) -> int | None:
    """The tag of a language, None for "auto"; a dialect speaker turns auto and Chinese into the dialect.

    Raises RequestRejected for a language the checkpoint has no tag for.
    """
    name = (language or "auto").lower()
    if name != "auto" and name not in control.languages:
        valid = ", ".join(("auto", *control.languages))
        raise RequestRejected(f"language {language!r} is unknown; valid: {valid}", "language")
    if speaker in control.dialects and name in ("auto", "chinese"):
        name = control.dialects[speaker]
    return None if name == "auto" else control.languages[name]


def control_text(talker: Talker, text: TextConfig, device: torch.device) -> Tensor:
    """The vectors of the text ids pad, bos and eos [3, H]."""
    with torch.inference_mode():
        return talker.embed_text(torch.tensor([text.tts_pad_id, text.tts_bos_id, text.tts_eos_id], device=device))


def layout(
    segment: Segment,
    talker: Talker,
    predictor: CodePredictor,
    control: CodecControl,
    markers: Tensor,
    speaker: Tensor | None = None,
    reference_codes: Tensor | None = None,
) -> TalkerPrompt:
    """The vectors of a segment; see the module docstring.

    markers [3, H]: text pad, bos, eos. speaker [H]: the vector in the speaker slot instead of
    the embedding of ``segment.speaker_id``. reference_codes [T, 16].
    """
    device = markers.device
    pad, bos, eos = markers.unbind()
    parts = (segment.instruction_ids, segment.role_ids, segment.reference_ids + segment.text_ids)
    text = talker.embed_text(to_device([i for part in parts for i in part], device))
    instruction, role, spoken = text.split([len(part) for part in parts])
    spoken = torch.cat([spoken, eos[None]])

    codec = _codec_side(segment, talker, control, speaker, device)
    tags = codec[:-1] + torch.cat([pad.expand(len(codec) - 2, -1), bos[None]])
    start, codec_pad = codec[-1:], codec[-2]
    if reference_codes is not None:
        start = torch.cat([start, predictor.embed_frame(reference_codes, talker.codec_embedding.weight)])
    if segment.streaming_text:
        # text and codes side by side: what is longer than the other is trailing text, or meets padding
        count = len(start)
        padding = pad.expand(max(0, count - len(spoken)), -1)
        body = torch.cat([spoken[:count], padding]) + start
        trailing = spoken[count:]
    else:
        body = torch.cat([spoken + codec_pad, start + pad])
        trailing = spoken[:0]
    embeds = torch.cat([instruction, role, tags, body])
    positions = torch.arange(len(embeds), device=device)
    return TalkerPrompt(embeds, positions, len(embeds), trailing, reference_codes)


def layouts(segments: list[Segment], talker: Talker, control: CodecControl, markers: Tensor) -> list[TalkerPrompt]:
    """:func:`layout` of several segments without a reference, in a dozen operations for all of them.

    Every position is one row of a table of text vectors, and where there is a codec side one of its rows is added.
    """
    device = markers.device
    spoken_ids = [segment.reference_ids + segment.text_ids for segment in segments]
    ids = [i for s, own in zip(segments, spoken_ids, strict=True) for i in s.instruction_ids + s.role_ids + own]
    pad, bos, eos = range(len(ids), len(ids) + 3)
    rows: list[int] = []  # of the table of text vectors
    codec: list[tuple[int, int]] = []  # position, codec id
    spans: list[tuple[int, int, int]] = []  # of each segment: its beginning, its end, the end of its trailing text
    first = 0
    for segment, own in zip(segments, spoken_ids, strict=True):
        begin = len(rows)
        plain = len(segment.instruction_ids) + len(segment.role_ids)
        text = range(first + plain, first + plain + len(own))
        rows += range(first, first + plain)
        first = text.stop
        *tags, codec_pad, codec_bos = codec_ids(segment.language_id, segment.speaker_id, control)
        codec += enumerate([*tags, codec_pad], start=len(rows))
        rows += [*[pad] * len(tags), bos]
        spoken = [*text, eos]
        trailing: list[int] = []
        if segment.streaming_text:
            codec.append((len(rows), codec_bos))
            rows.append(spoken[0])
            trailing = spoken[1:]
        else:
            codec += [(len(rows) + i, codec_pad) for i in range(len(spoken))]
            rows += spoken
            codec.append((len(rows), codec_bos))
            rows.append(pad)
        end = len(rows)
        rows += trailing
        spans.append((begin, end, len(rows)))
    at, added = zip(*codec, strict=True)
    sizes = [len(ids), len(rows), len(at), len(added)]
    given = to_device([*ids, *rows, *at, *added], device).split(sizes)
    table = torch.cat([talker.embed_text(given[0]), markers])
    vectors = table[given[1]].index_add_(0, given[2], talker.codec_embedding(given[3]))
    positions = torch.arange(max(end - begin for begin, end, _ in spans), device=device)
    return [
        TalkerPrompt(vectors[begin:end], positions[: end - begin], end - begin, vectors[end:last])
        for begin, end, last in spans
    ]


def codec_ids(language: int | None, speaker: int | None, control: CodecControl) -> list[int]:
    """Language tags, the speaker if it has an id, pad, bos."""
    if language is None:
        ids = [control.nothink_id, control.think_bos_id, control.think_eos_id]
    else:
        ids = [control.think_id, control.think_bos_id, language, control.think_eos_id]
    if speaker is not None:
        ids.append(speaker)
    return [*ids, control.pad_id, control.bos_id]


def _codec_side(
    segment: Segment, talker: Talker, control: CodecControl, speaker: Tensor | None, device: torch.device
) -> Tensor:
    """Language tags, the speaker's slot if there is one, pad, bos [4..7, H]."""
    vectors = talker.codec_embedding(to_device(codec_ids(segment.language_id, segment.speaker_id, control), device))
    if speaker is None:
        return vectors
    tags = 3 if segment.language_id is None else 4
    return torch.cat([vectors[:tags], speaker[None].to(vectors.dtype), vectors[-2:]])
