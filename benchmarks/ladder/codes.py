"""Whether a rung of the ladder speaks the codes of the eager one: in float32, at a small size, alone and in company.

The whole engine runs, prefill included. With random numbers fixed by each request's seed, two
ways to compute a step differ by rounding only, which float32 does not let a draw notice.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import torch

from omni_bench.errors import OmniBenchError
from reference_impl.engine.engine import Engine
from reference_impl.engine.stages import stages_for
from reference_impl.engine_api import Finished
from reference_impl.faults.engines import with_fault
from reference_impl.loading.checkpoint import Model
from reference_impl.loading.from_settings import Origin
from reference_impl.loading.random_weights import random_model
from reference_impl.model.config import ModelConfig
from reference_impl.model.presets import QWEN3_TTS_1_7B, TINY
from reference_impl.roofline.closed_loop import Pace, closed_loop, text_of
from reference_impl.settings import ServerSettings

COMPANY = 5
FRAMES = 24
MAX_SEQ_LEN = 128
_eager: dict[str, list[np.ndarray]] = {}


def small_config() -> ModelConfig:
    """The released layout with three and two narrow layers, and the tiny voice's Code2Wav."""
    talker, predictor = QWEN3_TTS_1_7B.talker, QWEN3_TTS_1_7B.predictor
    size = {"num_heads": 4, "num_kv_heads": 2, "head_dim": 32, "intermediate_size": 96}
    return dataclasses.replace(
        QWEN3_TTS_1_7B,
        talker=dataclasses.replace(
            talker, transformer=dataclasses.replace(talker.transformer, hidden_size=96, num_layers=3, **size)
        ),
        predictor=dataclasses.replace(
            predictor,
            transformer=dataclasses.replace(predictor.transformer, hidden_size=64, num_layers=2, **size),
        ),
        code2wav=dataclasses.replace(TINY.code2wav, codebook_size=predictor.codebook_size),
    )


def codes_of(pace: Pace) -> list[np.ndarray]:
    """What each request spoke, int16 [frames, 16], by place and round."""
    return [request.end.codes for request in pace.spoken if isinstance(request.end, Finished)]


def engine_of(model: Model, settings: ServerSettings) -> Engine:
    """An engine of a rung over a model that is loaded already."""
    stages = stages_for(settings)
    if settings.fault is not None:
        _, stages = with_fault(settings.fault, stages)
    return Engine(model, settings, Origin(None, None), stages)


def spoken_codes(settings: ServerSettings) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The codes of the same requests, one after the other and all at once."""
    config = small_config()
    model = random_model(config, torch.device(settings.device), torch.float32, MAX_SEQ_LEN, 256)
    engine = engine_of(model, settings)
    try:
        engine.warm_up()
        text = text_of(FRAMES, config.frame_rate_hz)
        together = codes_of(closed_loop(engine, text, COMPANY, 1))
        # place p of a closed loop has the seed 1000 p
        alone = [codes_of(closed_loop(engine, text, 1, 1, seed=1000 * place))[0] for place in range(COMPANY)]
    finally:
        engine.stop()
    return alone, together


def check_codes(rung: dict[str, Any], device: str) -> str:
    """``equal`` or where the first difference is, against the eager rung alone, of this rung alone and in company."""

    def settings(**more: Any) -> ServerSettings:
        return ServerSettings(device=device, max_batch=COMPANY, max_seq_len=MAX_SEQ_LEN, dtype="float32", **more)

    try:
        if device not in _eager:
            _eager[device] = spoken_codes(settings())[0]
        alone, together = spoken_codes(settings(**rung))
    except (OmniBenchError, RuntimeError) as error:
        return f"not checked: {type(error).__name__}"
    found = [difference(_eager[device], codes) for codes in (alone, together)]
    if found == [None, None]:
        return "equal"
    return "; ".join(f"{where}: {what or 'equal'}" for where, what in zip(("alone", "in company"), found, strict=True))


def difference(want: list[np.ndarray], got: list[np.ndarray]) -> str | None:
    """The first request and frame whose codes [frames, 16] are not the same; None for none."""
    for request, (one, other) in enumerate(zip(want, got, strict=True)):
        if len(one) != len(other):
            return f"request {request} has {len(other)} frames instead of {len(one)}"
        frames = np.flatnonzero((one != other).any(axis=1))
        if len(frames):
            return f"request {request} differs from frame {frames[0]} on"
    return None
