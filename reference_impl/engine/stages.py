"""Which stages an engine runs: what ``reference.graphs`` chooses, or what it is handed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from omni_bench.errors import ConfigError
from reference_impl.engine.chunking import ChunkSchedule
from reference_impl.engine.code2wav_worker import AudioWorker
from reference_impl.engine.decode_batch import DecodeBatch
from reference_impl.engine.execution import CompiledBatch, StageGraphBatch
from reference_impl.loading.checkpoint import Model
from reference_impl.settings import CODE2WAV_GRAPHS, GRAPHS, ServerSettings

NewBatch = Callable[[Model, ServerSettings, int, Tensor | None], DecodeBatch]
NewWorker = Callable[[Model, int, Callable[[Exception], None]], AudioWorker]
NewSchedule = Callable[[ServerSettings, float], ChunkSchedule]


def chunk_schedule(settings: ServerSettings, frame_s: float) -> ChunkSchedule:
    """When the chunks of one request leave; ``frame_s``: audio of a frame."""
    # where a chunk ends must not depend on the pace: a sample's rounding does on the chunk it is in
    growth = "double" if settings.deterministic else "buffered"
    return ChunkSchedule(settings.first_chunk_frames, settings.chunk_frames, frame_s, growth)


@dataclass(frozen=True)
class Stages:
    """What an engine is made of. ``batch``: the talker and the code predictor, with the arguments of
    :class:`DecodeBatch`. ``code2wav``: with those of :class:`AudioWorker`. ``chunks``: as :func:`chunk_schedule`.
    ``fault``: what is broken in them on purpose (:mod:`reference_impl.faults`), None if nothing is.
    """

    batch: NewBatch = DecodeBatch
    code2wav: NewWorker = AudioWorker
    chunks: NewSchedule = chunk_schedule
    fault: str | None = None


def stages_for(settings: ServerSettings) -> Stages:
    """The stages for these settings. Raises ConfigError for settings that do not go together."""
    return Stages(batch_stage(settings), code2wav_stage(settings))


def batch_stage(settings: ServerSettings) -> NewBatch:
    """What steps the batch. Raises ConfigError for settings that do not go together."""
    if settings.graphs not in GRAPHS:
        raise ConfigError(f"reference.graphs={settings.graphs!r} is unknown; valid: {', '.join(GRAPHS)}")
    if settings.graphs == "full_step":
        if not torch.cuda.is_available():
            raise ConfigError(
                "reference.graphs='full_step' needs a CUDA device, which PyTorch does not see; valid: off"
            )
        try:
            # Triton comes with CUDA builds of PyTorch only
            from reference_impl.engine.cuda.batch import FullStepBatch
        except ImportError as error:
            raise ConfigError(f"reference.graphs='full_step' needs Triton 3.6 or later: {error}") from None
        return FullStepBatch
    return {"off": DecodeBatch, "compile": CompiledBatch, "cuda_graph": StageGraphBatch}[settings.graphs]


def code2wav_stage(settings: ServerSettings) -> NewWorker:
    """What decodes the frames: in CUDA graphs where the step runs in them."""
    if settings.graphs not in CODE2WAV_GRAPHS:
        return AudioWorker
    from reference_impl.engine.cuda.audio import GraphAudioWorker

    frames = max(settings.first_chunk_frames, settings.chunk_frames)
    return partial(GraphAudioWorker, rows=settings.max_batch, frames=frames)
