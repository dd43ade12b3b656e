"""An engine whose batch steps ahead, under requests that come, leave, are cancelled and turned away: the codes of each.

Without a GPU the batch is the eager one, one step late (``LateBatch``), which leaves the engine's own work to test;
with one it is the captured step beside Code2Wav's graphs.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from small_model import small_config, small_model
from torch import Tensor

from reference_impl.engine.code2wav_worker import AudioJob, AudioWorker
from reference_impl.engine.decode_batch import DecodeBatch
from reference_impl.engine.engine import Engine
from reference_impl.engine.stages import Stages
from reference_impl.engine_api import AudioChunk, EngineDead, Failed, Finished, QueueFull, SpeechRequest
from reference_impl.loading.checkpoint import Model
from reference_impl.loading.from_settings import Origin
from reference_impl.loading.random_weights import random_model
from reference_impl.model.config import CodecControl, TextConfig
from reference_impl.settings import ServerSettings

pytest.importorskip("triton", reason="Triton comes with CUDA builds of PyTorch")
from reference_impl.engine.cuda.batch import FullStepBatch

ROWS, MAX_SEQ_LEN, MAX_FRAMES, HOP, PATIENCE_S = 5, 96, 256, 1920, 60.0
WORDS = ("every tide returns", "a", "slow boats wait", "nobody asked them why", "go", "one grey gull calls again")
TEXTS = [
    *WORDS,
    "first we walk. then we rest. at last we sleep",  # segments, one after the other
    "so short. a",
    " ".join("abc" for _ in range(48)),  # a long prompt, and more frames than its row has room for
    " ".join("x" for _ in range(70)),  # a prompt that no graph takes
    " ".join("x" for _ in range(80)),  # and one that leaves room for a few frames only
]
CAPS = {9: 6, 3: 4}
"""Texts of which only so many frames are asked for."""


class Mute(AudioWorker):
    """Silence in no time, for a batch on a CPU."""

    def _decode(self, jobs: list[AudioJob]) -> Iterator[tuple[AudioJob, np.ndarray]]:
        yield from ((job, np.zeros(HOP * len(job.codes), "<i2")) for job in jobs)


class EagerPrompts:
    """Prompts that are collected as for the graphs, and prefilled one by one."""

    longest = 64

    def __init__(self, batch: DecodeBatch):
        self._batch = batch

    def padded(self, length: int) -> int:
        return 32 if length <= 32 else 64

    def prefill(self, prompts: list[Tensor], positions: list[int], rows: list[int]) -> None:
        batch = self._batch
        for embeds, begin, row in zip(prompts, positions, rows, strict=True):
            places = torch.arange(begin, begin + len(embeds))
            batch._hidden[row] = batch.model.talker.prefill(embeds, places, batch._cache, row)


class LateBatch(FullStepBatch):
    """Looks at a step after the next has begun, as the captured one does; the step is the eager one."""

    def __init__(self, model, settings, max_frames, pad):
        DecodeBatch.__init__(self, model, settings, max_frames + 1, pad)
        self.max_length = settings.max_seq_len - 1
        self._active = torch.zeros(settings.max_batch, dtype=torch.long)
        self._prompts, self.batches_prefill = EagerPrompts(self), True
        self._allocated, self._pending, self._launched = [], [], deque()

    def launch_step(self) -> None:
        self._prefill_pending()
        self._launched.append(DecodeBatch.step(self))

    def collect_step(self) -> np.ndarray:
        return self._launched.popleft()


class Segmented:
    """Released prompts with a segment for each sentence, which they never have by themselves."""

    def __init__(self, prompts):
        self._prompts = prompts

    def __getattr__(self, name):
        return getattr(self._prompts, name)

    def segments(self, request: SpeechRequest):
        sentences = request.text.split(". ")
        return [self._prompts.segments(dataclasses.replace(request, text=text))[0] for text in sentences]


EAGER, LATE = Stages(code2wav=Mute), Stages(LateBatch, Mute)


class Heard:
    """What one request was told; ``cancel_after``: it is given up at this chunk (0: as soon as it is taken)."""

    def __init__(self, engine: Engine, number: int, text: int, cancel_after: int | None = None):
        self.engine, self.text, self.cancel_after = engine, text, cancel_after
        self.request = SpeechRequest(
            f"r{number}", TEXTS[text], engine.voices[0], seed=text, max_new_tokens=CAPS.get(text)
        )
        self.chunks: list[AudioChunk] = []
        self.ends: list[Finished | Failed] = []
        self.over = threading.Event()

    def __call__(self, event) -> None:
        assert not self.ends, "something came behind the end"
        if not isinstance(event, AudioChunk):
            self.ends.append(event)
            self.over.set()
            return
        self.chunks.append(event)
        if len(self.chunks) == self.cancel_after:
            self.engine.cancel(self.request.request_id)


def engine_of(stages: Stages | None, model: Model, **more: object) -> Engine:
    # a step ahead may be one in vain, for which a row keeps a position free
    positions = MAX_SEQ_LEN - (stages is EAGER)
    settings = ServerSettings(
        device=model.device.type, max_batch=ROWS, max_seq_len=positions, max_queue=3, chunk_frames=4, recorded=False,
        dtype="float32", predictor_temperature=0.0, **more,
    )  # fmt: skip
    built = Engine(model, settings, Origin(None, None), stages)
    built._prompts = Segmented(built._prompts)
    return built


def submit(engine: Engine, heard: Heard) -> int:
    """As soon as the queue takes it -> how often it was full."""
    refused, deadline = 0, time.monotonic() + PATIENCE_S
    while True:
        try:
            engine.submit(heard.request, heard)
            return refused
        except QueueFull:
            refused += 1
            assert time.monotonic() < deadline
            time.sleep(0.002)


def plain_codes(engine: Engine) -> list[np.ndarray]:
    """Those of each text."""
    all_heard = [Heard(engine, text, text) for text in range(len(TEXTS))]
    for heard in all_heard:
        submit(engine, heard)
    for heard in all_heard:
        assert heard.over.wait(PATIENCE_S)
    return [heard.ends[0].codes for heard in all_heard]


def churn(engine: Engine, requests: int) -> tuple[list[Heard], int]:
    """Requests as fast as the queue takes them, some given up -> all of them, and how often the queue was full."""
    order = np.random.default_rng(0)
    all_heard, refused = [], 0
    for number in range(requests):
        cancel_after = {0: 0, 1: 1, 2: 3}.get(int(order.integers(8)))
        heard = Heard(engine, number, int(order.integers(len(TEXTS))), cancel_after)
        refused += submit(engine, heard)
        if cancel_after == 0:
            engine.cancel(heard.request.request_id)
        all_heard.append(heard)
    for heard in all_heard:
        assert heard.over.wait(PATIENCE_S), f"{heard.request} never ended"
    return all_heard, refused


def check(engine: Engine, all_heard: list[Heard], alone: list[np.ndarray]) -> None:
    """Every request got its own codes, all of them or up to where it was given up, and nothing is left behind."""
    reasons = Counter()
    for heard in all_heard:
        (end,), want = heard.ends, alone[heard.text]
        assert isinstance(end, Finished), end
        reasons[end.reason] += 1
        codes = np.zeros((0, 16)) if end.codes is None else end.codes
        np.testing.assert_array_equal(codes, want[: len(codes)], err_msg=str(heard.request))
        assert end.reason == "cancelled" or len(codes) == len(want)
        frames = sum(chunk.frames for chunk in heard.chunks)
        assert frames <= len(codes) if end.reason == "cancelled" else frames == len(codes)
        assert all(len(chunk.pcm) == 2 * HOP * chunk.frames for chunk in heard.chunks)
    assert min(reasons[reason] for reason in ("stop", "length", "cancelled")) > 1, reasons
    deadline = time.monotonic() + PATIENCE_S
    scheduler = engine._scheduler
    while scheduler.busy and time.monotonic() < deadline:
        time.sleep(0.002)
    assert (len(scheduler.running), len(scheduler.waiting), scheduler.busy, engine._draining) == (0, 0, False, set())
    assert sorted(engine._audio._free) == list(range(2 * ROWS))
    batch = engine._batch
    assert batch.count == 0 and not batch._active.any() and not batch._counters[1:5].any()


def as_released(model: Model) -> Model:
    """The released prompts, whose ids are made to fit the small tables."""
    talker = model.config.talker
    control = CodecControl(140, 141, 142, 143, 144, 145, languages={"english": 146}, speakers={"ryan": 147})
    size = talker.text_vocab_size
    text = TextConfig("custom_voice", True, size - 3, size - 2, size - 1)
    config = dataclasses.replace(model.config, talker=dataclasses.replace(talker, control=control), text=text)
    return dataclasses.replace(model, config=config)


@pytest.fixture(scope="module")
def small_released() -> Model:
    cpu = torch.device("cpu")
    return as_released(random_model(small_config(), cpu, torch.float32, MAX_SEQ_LEN, MAX_FRAMES, seed=1))


@pytest.mark.slow
def test_every_request_keeps_its_codes_beside_others_that_come_and_go_float32(small_released) -> None:
    eager, late = (engine_of(stages, small_released) for stages in (EAGER, LATE))
    try:
        alone = plain_codes(eager)
        all_heard, refused = churn(late, 30)
        assert refused
        check(late, all_heard, alone)
    finally:
        eager.stop()
        late.stop()


@pytest.mark.parametrize("broken", ["nothing", "launch_step", "collect_step", "audio"])
def test_what_is_under_way_fails_when_the_engine_stops_or_breaks_float32(small_released, monkeypatch, broken) -> None:
    engine = engine_of(LATE, small_released)
    part, name = {"audio": (engine._audio, "_decode")}.get(broken, (engine._batch, broken))
    all_heard = [Heard(engine, number, number % 3) for number in range(ROWS + 2)]
    calls = []

    def fail(*arguments):
        calls.append(arguments)
        if len(calls) > 2:
            raise RuntimeError("out of order")
        return whole(*arguments)

    if broken != "nothing":
        whole = getattr(part, name)
        monkeypatch.setattr(part, name, fail)
    for heard in all_heard:
        engine.submit(heard.request, heard)
    if broken == "nothing":
        engine.stop()
    for heard in all_heard:
        assert heard.over.wait(PATIENCE_S)
    message = "the engine was stopped" if broken == "nothing" else "the engine died: RuntimeError: out of order"
    assert {end.message for heard in all_heard for end in heard.ends if isinstance(end, Failed)} == {message}
    assert all(len(heard.ends) == 1 for heard in all_heard)
    with pytest.raises(EngineDead):
        engine.submit(all_heard[0].request, all_heard[0])
    engine.stop()


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_captured_step_under_a_minute_of_load_in_seconds() -> None:
    model = as_released(small_model())
    # Code2Wav in the type whose kernels the other tests compile
    model = dataclasses.replace(model, code2wav=small_model(dtype=torch.bfloat16).code2wav)
    eager = engine_of(EAGER, model)
    try:
        alone = plain_codes(eager)
    finally:
        eager.stop()
    engine = engine_of(None, model, graphs="full_step")
    try:
        all_heard, refused = churn(engine, 400)
        assert refused
        check(engine, all_heard, alone)
    finally:
        engine.stop()
