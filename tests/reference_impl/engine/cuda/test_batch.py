"""The captured step against the eager batch: the same codes in float32, alone and in company."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_model import FRAMES, enter, needs_cuda, pad_vector, settings, small_model, steps

from omni_bench.errors import ConfigError
from reference_impl.engine.decode_batch import DecodeBatch
from reference_impl.engine.stages import batch_stage

pytest.importorskip("triton", reason="Triton comes with CUDA builds of PyTorch")
from reference_impl.engine.cuda.batch import FullStepBatch

pytestmark = needs_cuda


@pytest.mark.parametrize(
    ("hidden_size", "temperature", "rows"), [(64, None, 5), (64, 0.0, 5), (96, None, 5), (96, 0.0, 5), (96, None, 20)]
)
def test_codes_equal_eager(hidden_size: int, temperature: float | None, rows: int) -> None:
    """With 20 rows the talker's attention is cut otherwise than with 5."""
    model = small_model(hidden_size)
    options = settings(rows, temperature=temperature, predictor_temperature=temperature)
    codes = []
    for kind in (DecodeBatch, FullStepBatch):
        batch = kind(model, options, FRAMES, pad_vector(model))
        with torch.inference_mode():
            for seed in range(rows):
                enter(batch, seed, forced_frames=4 + seed)
        codes.append(steps(batch, FRAMES))
    np.testing.assert_array_equal(*codes)


def test_codes_equal_solo_and_in_company() -> None:
    """Rows come and go in between; with ``deterministic`` every step has the same shape."""
    model = small_model(dtype=torch.bfloat16)
    batch = FullStepBatch(model, settings(8, deterministic=True), FRAMES, pad_vector(model))
    with torch.inference_mode():
        alone = {}
        for seed in (3, 4):
            assert enter(batch, seed) == 0
            alone[seed] = np.stack([batch.step()[0] for _ in range(16)])
            batch.free_slot(0)
        together: dict[int, list[np.ndarray]] = {3: [], 4: []}
        rows = {}
        for frame in range(20):
            if frame == 0:
                rows[10], rows[3] = enter(batch, 10), enter(batch, 3)
            if frame == 4:
                rows[4], rows[11] = enter(batch, 4), enter(batch, 11)
            if frame == 8:
                moved = batch.free_slot(rows.pop(10))
                rows = {seed: 0 if row == moved else row for seed, row in rows.items()}
            result = batch.step()
            for seed, kept in together.items():
                if seed in rows and len(kept) < 16:
                    kept.append(result[rows[seed]])
    for seed, want in alone.items():
        np.testing.assert_array_equal(np.stack(together[seed]), want)


def test_rows_that_leave_together() -> None:
    model, codes = small_model(), []
    for kind in (DecodeBatch, FullStepBatch):
        batch = kind(model, settings(6), FRAMES, pad_vector(model))
        with torch.inference_mode():
            for seed in range(5):
                enter(batch, seed)
            first = steps(batch, 3)
            assert batch.free_slots([0, 3]) == {0: 4}
            enter(batch, 7)
            second = steps(batch, 3)
            assert batch.free_slots([0, 1]) == {0: 2, 1: 3}
            third = steps(batch, 3)
            assert batch.free_slots([0, 1]) == {}
            enter(batch, 8)
        codes.append([first, second, third, steps(batch, 3)])
    for want, got in zip(*codes, strict=True):
        np.testing.assert_array_equal(want, got)


def test_two_steps_under_way() -> None:
    model = small_model()
    late, plain = (FullStepBatch(model, settings(2), FRAMES, pad_vector(model)) for _ in range(2))
    with torch.inference_mode():
        for batch in (late, plain):
            enter(batch, 1)
        want = steps(plain, 6)
        late.launch_step()
        got = []
        for _ in range(5):
            late.launch_step()
            got.append(late.collect_step())
        got.append(late.collect_step())
    np.testing.assert_array_equal(np.stack(got), want)


@pytest.mark.parametrize("graphs", ["cuda_graph", "compile"])
def test_other_rungs_equal_eager(graphs: str) -> None:
    options = settings(3, graphs=graphs)
    codes = []
    for kind in (DecodeBatch, batch_stage(options)):
        model = small_model()
        batch = kind(model, options, FRAMES, pad_vector(model))
        with torch.inference_mode():
            for seed in range(3):
                enter(batch, seed)
        codes.append(steps(batch, 12))
    np.testing.assert_array_equal(*codes)


def test_sampling_without_kernels_is_refused() -> None:
    model = small_model()
    with pytest.raises(ConfigError, match="top_p"):
        FullStepBatch(model, settings(2, top_p=0.8), FRAMES, pad_vector(model))


def test_more_rows_than_kernels_is_refused() -> None:
    model = small_model()
    with pytest.raises(ConfigError, match="max_batch=33"):
        FullStepBatch(model, settings(33), FRAMES, pad_vector(model))
