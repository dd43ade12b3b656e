"""What is compared, one function a subject. Each takes a :class:`Pair` and yields rows of the table."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reference_impl.engine.decode_batch import DecodeBatch
from reference_impl.engine.engine import Engine
from reference_impl.engine_api import AudioChunk, SpeechRequest
from reference_impl.loading.checkpoint import Model
from reference_impl.loading.from_settings import Origin
from reference_impl.model.predictor_strategies import STRATEGIES
from reference_impl.model.sampling import request_uniforms
from reference_impl.official_parity.official import EOS, Kind
from reference_impl.official_parity.recorder import ParityCase, official_audio, official_generation, official_prompt
from reference_impl.official_parity.table import Result
from reference_impl.prompt.builder import PromptBuilder, TalkerPrompt
from reference_impl.settings import ServerSettings

FRAMES = 50
GREEDY = {"temperature": 0.0, "predictor_temperature": 0.0}


@dataclass(frozen=True)
class Pair:
    """The same folder, loaded by the official package (its wrapper class) and by us."""

    kind: Kind
    official: Any
    ours: Model


def relative_error(ours: Tensor, official: Tensor) -> float:
    """max |ours - official| / max |official|; infinity for another shape."""
    if ours.shape != official.shape:
        return float("inf")
    return ((ours - official).abs().max() / official.abs().max()).item()


def share_different(ours: Any, official: Any) -> float:
    """Share of ids that differ; 1 for another shape."""
    ours, official = np.asarray(ours), np.asarray(official)
    return 1.0 if ours.shape != official.shape else float(np.mean(ours != official))


def speech(seconds: float, seed: int) -> np.ndarray:
    """Something that moves through pitch and loudness as a recording does, float32 at 24 kHz."""
    time = np.arange(round(24000 * seconds)) / 24000
    noise = np.random.default_rng(seed).standard_normal(len(time))
    tone = np.sin(2 * np.pi * (120 + 30 * np.sin(2 * np.pi * 0.7 * time + seed)) * time)
    return ((0.3 * tone + 0.05 * noise) * (0.6 + 0.4 * np.sin(2 * np.pi * 3 * time))).astype(np.float32)


def cases(kind: Kind) -> list[ParityCase]:
    """Requests that together use every branch of the prompt's layout."""
    text, long_text = "Hello, the thing is 42!", "It's the user's turn; they're waiting. " * 4
    if kind.task == "custom_voice":
        return [
            ParityCase("named voice", text, voice="ada", language="English", streaming_text=False),
            ParityCase("named voice, streaming text", text, voice="ada", language="English", streaming_text=True),
            ParityCase("no language", long_text.strip(), voice="ada", streaming_text=True),
            ParityCase("dialect speaker", "你好，世界。", voice="dylan", language="Chinese", streaming_text=False),
            ParityCase("instruction", text, voice="ada", instructions="Speak slowly.", streaming_text=False),
        ]
    if kind.task == "voice_design":
        return [
            ParityCase(
                "designed voice", text, instructions="An old, warm voice", language="English", streaming_text=False
            ),
            ParityCase("designed voice, streaming text", text, instructions="A bright voice", streaming_text=True),
            ParityCase("no description", text, instructions=None, streaming_text=False),
        ]
    recording, longer = speech(1.3, seed=1), speech(4.1, seed=2)
    return [
        ParityCase("x-vector", text, audio=recording, language="English", streaming_text=True),
        ParityCase("x-vector, whole text", text, audio=recording, streaming_text=False),
        ParityCase(
            "in context, text longer", long_text.strip(), audio=recording, audio_text="the user", streaming_text=True
        ),
        ParityCase(
            "in context, codes longer", "Hi.", audio=longer, audio_text="the", language="English", streaming_text=True
        ),
        ParityCase("in context, whole text", text, audio=recording, audio_text="the user", streaming_text=False),
    ]


def our_request(default_voice: str, case: ParityCase, max_new_tokens: int | None = None) -> SpeechRequest:
    """A case as a request to the engine."""
    return SpeechRequest(
        case.name,
        case.text,
        case.voice or default_voice,
        seed=0,
        max_new_tokens=max_new_tokens,
        language=case.language,
        instructions=case.instructions,
        reference_audio=case.audio,
        reference_text=case.audio_text,
        streaming_text=case.streaming_text,
    )


def our_prompt(builder: PromptBuilder, case: ParityCase) -> TalkerPrompt:
    """The prompt that a server would build for a case."""
    (segment,) = builder.segments(our_request(builder.voices[0], case))
    prompt = builder.build(segment)
    if len(prompt.embeds) != segment.length:
        raise AssertionError(f"{case.name}: {len(prompt.embeds)} positions, announced {segment.length}")
    return prompt


def check_prompts(pair: Pair) -> Iterator[Result]:
    """Prompt embeddings and trailing text of every case, from the text on."""
    builder = PromptBuilder(pair.ours)
    for case in cases(pair.kind):
        embeds, trailing = official_prompt(pair.official, pair.kind, case)
        ours = our_prompt(builder, case)
        # after the trailing text both sides keep adding the pad vector
        coming = torch.cat([ours.trailing, builder.pad.expand(max(1, len(trailing) - len(ours.trailing)), -1)])
        error = max(
            relative_error(ours.embeds, embeds),
            relative_error(coming[: len(trailing)], trailing),
            0.0 if len(ours.trailing) <= len(trailing) else float("inf"),
        )
        steps = f"{len(embeds)} positions, {len(trailing)} trailing"
        yield Result(f"prompt: {case.name}", pair.kind.name, error, steps)


def check_generation(pair: Pair) -> Iterator[Result]:
    """Greedy codes of a batch over 50 frames, and the logits and hidden states of every step along them."""
    # the official wrapper takes one text mode a batch
    for streaming_text, mode in ((False, "whole text"), (True, "streaming text")):
        chosen = [case for case in cases(pair.kind) if case.streaming_text == streaming_text]
        recorded = official_generation(pair.official, pair.kind, chosen, frames=FRAMES)
        codes, states = our_generation(pair, chosen)
        compared = f"{FRAMES} frames × {len(chosen)}"
        yield Result(f"greedy codes, {mode}", pair.kind.name, share_different(codes, recorded.codes), compared, 0)
        for name, ours, official in (
            ("talker hidden states", states, recorded.hidden),
            ("talker logits", pair.ours.talker.codec_head(states), recorded.logits),
        ):
            for part, steps in (("prefill", slice(0, 1)), ("decode", slice(1, None))):
                error = relative_error(ours[:, steps], official[:, steps])
                compared = f"{ours[:, steps].shape[1]} × {len(chosen)}"
                yield Result(f"{name}, {mode}, {part}", pair.kind.name, error, compared)


def our_generation(pair: Pair, chosen: list[ParityCase]) -> tuple[np.ndarray, Tensor]:
    """The decode loop over a batch: codes [B, 50, 16] and the hidden state of every step [B, 51, H]."""
    builder = PromptBuilder(pair.ours)
    settings = ServerSettings(max_batch=len(chosen), max_seq_len=512, **GREEDY)
    batch = DecodeBatch(pair.ours, settings, FRAMES + 1, builder.pad)
    for case in chosen:
        slot = batch.allocate_slot(request_uniforms(0, FRAMES + 1, 16))
        batch.prefill(slot, our_prompt(builder, case))
    hidden, codes = [batch.hidden.clone()], []
    for _ in range(FRAMES):
        codes.append(batch.step()[:, :16])
        hidden.append(batch.hidden.clone())
    return np.stack(codes, axis=1), torch.stack(hidden, dim=1)


def check_end(pair: Pair) -> Iterator[Result]:
    """With an end token that is drawn now and then: the frame at which each request ends."""
    boost = 200.0
    official_row = pair.official.model.talker.codec_head.weight.data[EOS]
    our_row = pair.ours.talker.codec_head.weight.data[EOS]
    official_row *= boost
    our_row *= boost
    try:
        builder = PromptBuilder(pair.ours)
        chosen = [case for case in cases(pair.kind) if not case.streaming_text]
        ends, expected = [], []
        for case in chosen:
            expected.append(official_generation(pair.official, pair.kind, [case], frames=FRAMES).codes.shape[1])
            batch = DecodeBatch(pair.ours, ServerSettings(max_batch=1, **GREEDY), FRAMES + 1, builder.pad)
            batch.prefill(batch.allocate_slot(request_uniforms(0, FRAMES + 1, 16)), our_prompt(builder, case))
            code0, frames = int(batch.code0[0]), 0
            while code0 != EOS and frames < FRAMES:
                code0, frames = int(batch.step()[0, 16]), frames + 1
            ends.append(frames)
    finally:
        official_row /= boost
        our_row /= boost
    if min(expected) == FRAMES:
        raise AssertionError("no request ended: the comparison would show nothing")
    steps = f"{len(chosen)} requests: {', '.join(map(str, expected))} frames"
    yield Result("end of speech", pair.kind.name, share_different(ends, expected), steps, 0)


def check_audio(pair: Pair) -> Iterator[Result]:
    """A whole utterance through the engine, in chunks and 16 bits, against the official method's audio."""
    case = cases(pair.kind)[-1]
    expected = torch.from_numpy(official_audio(pair.official, pair.kind, case, FRAMES))
    settings = ServerSettings(max_batch=2, max_seq_len=512, **GREEDY)
    engine = Engine(pair.ours, settings, Origin(None, None))
    chunks: list[bytes] = []
    ended: queue.Queue[Any] = queue.Queue()

    def on_event(event: Any) -> None:
        if isinstance(event, AudioChunk):
            chunks.append(event.pcm)
        else:
            ended.put(event)

    try:
        engine.submit(our_request(engine.voices[0], case, max_new_tokens=FRAMES), on_event)
        ended.get(timeout=120)
    finally:
        engine.stop()
    ours = torch.from_numpy(np.frombuffer(b"".join(chunks), "<i2") / 32767.0).float()
    yield Result("audio of an utterance", pair.kind.name, relative_error(ours, expected), f"{FRAMES} frames")


def check_predictor(pair: Pair) -> Iterator[Result]:
    """Logits at each of the 15 steps of a frame along the same codes, for every strategy."""
    talker, predictor = pair.official.model.talker, pair.ours.predictor
    rows, groups = 5, predictor.config.num_code_groups
    generator = torch.Generator().manual_seed(5)
    hidden = torch.randn(rows, pair.ours.config.talker.transformer.hidden_size, generator=generator)
    codes = torch.randint(0, predictor.config.codebook_size, (rows, groups), generator=generator)
    first = torch.stack([hidden, talker.get_input_embeddings()(codes[:, 0])], dim=1)
    step = talker.code_predictor(inputs_embeds=first, use_cache=True)
    official = [step.logits[:, -1]]
    for group in range(2, groups):
        step = talker.code_predictor(
            input_ids=codes[:, group - 1 : group],
            past_key_values=step.past_key_values,
            generation_steps=group - 1,
            use_cache=True,
        )
        official.append(step.logits[:, -1])
    for name, make in STRATEGIES.items():
        strategy = make(predictor, rows)
        states = [strategy.start(predictor.first_inputs(hidden, codes[:, 0]))]
        states += [strategy.extend(predictor.input_of(codes[:, g - 1], g - 1), g) for g in range(2, groups)]
        errors = [
            relative_error(predictor.logits(state, g), official[g - 1]) for g, state in enumerate(states, start=1)
        ]
        yield Result(f"code predictor logits, {name}", pair.kind.name, max(errors), f"{len(errors)} steps × {rows}")


def check_code2wav(pair: Pair) -> Iterator[Result]:
    """The waveform of whole sequences and of streams in ragged chunks, longer than the attention window."""
    decoder, code2wav = pair.official.model.speech_tokenizer.model.decoder, pair.ours.code2wav
    frames = 60
    shape = (2, 16, frames)
    codes = torch.randint(0, code2wav.config.codebook_size, shape, generator=torch.Generator().manual_seed(6))
    official = decoder(codes)[:, 0]
    if official.abs().max() >= 1 or official.std() < 1e-3:
        raise AssertionError("the random decoder is clipped or silent: it would hide differences")
    yield Result("Code2Wav", pair.kind.name, relative_error(code2wav.decode(codes), official), f"{frames} frames × 2")
    state, at, pieces = code2wav.new_state(2), 0, []
    for size in (1, 2, 7, 24, 1, 25):
        pieces.append(code2wav.push(codes[..., at : at + size], state, slice(0, 2)))
        at += size
    error = relative_error(torch.cat(pieces, dim=1), official)
    yield Result("Code2Wav, streamed", pair.kind.name, error, f"{frames} frames × 2 in 6 chunks")


def check_encoders(pair: Pair) -> Iterator[Result]:
    """The speaker's vector and the codes of recordings (only where the checkpoint clones)."""
    if pair.ours.speaker_encoder is None:
        return
    recordings = [speech(seconds, seed=3) for seconds in (0.61, 2.0, 12.3)]
    vectors = [
        relative_error(
            pair.ours.speaker_encoder.embed(torch.from_numpy(audio)[None])[0],
            pair.official.model.extract_speaker_embedding(audio, sr=24000),
        )
        for audio in recordings
    ]
    yield Result("speaker encoder", pair.kind.name, max(vectors), f"{len(vectors)} recordings")
    encoder = pair.ours.codec_encoder
    official_encoder = pair.official.model.speech_tokenizer.model.encoder
    errors, differing, frames = [], [], 0
    for audio in recordings:
        samples = torch.from_numpy(audio)[None]
        seen: list[Tensor] = []
        handle = official_encoder.downsample.register_forward_hook(lambda _, __, out, seen=seen: seen.append(out))
        official = pair.official.model.speech_tokenizer.encode(audio, sr=24000).audio_codes[0]
        handle.remove()
        errors.append(relative_error(encoder.latents(samples).transpose(1, 2), seen[0]))
        differing.append(share_different(encoder.encode(samples)[0].T, official))
        frames += len(official)
        if len(official.unique()) < 20:
            raise AssertionError("the random encoder says the same for everything: it would hide differences")
    yield Result("codec encoder, before the codebooks", pair.kind.name, max(errors), f"{frames} frames")
    yield Result("codec encoder, codes", pair.kind.name, max(differing), f"{frames} frames × 16", 0)
