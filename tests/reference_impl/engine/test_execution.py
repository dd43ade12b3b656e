"""Which rung of the ladder runs, and that every rung that can run here gives the same codes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from omni_bench.errors import ConfigError
from reference_impl.build import build_engine
from reference_impl.engine.code2wav_worker import AudioWorker
from reference_impl.engine.decode_batch import DecodeBatch
from reference_impl.engine.execution import HostRoundtripBatch
from reference_impl.engine.stages import batch_stage, code2wav_stage
from reference_impl.loading.from_settings import load_weights
from reference_impl.model.sampling import request_uniforms
from reference_impl.prompt.for_model import prompt_builder
from reference_impl.settings import ServerSettings

SETTINGS = ServerSettings(max_batch=3, max_seq_len=160, device="cpu")


def test_round_trips_change_nothing() -> None:
    model, _ = load_weights(SETTINGS)
    prompts = prompt_builder(model)
    codes = []
    for kind in (DecodeBatch, HostRoundtripBatch):
        batch = kind(model, SETTINGS, 20, prompts.pad)
        with torch.inference_mode():
            for seed in (1, 2):
                prompt = prompts.build(prompts.segments(prompts.warm_up_request())[0])
                batch.prefill(batch.allocate_slot(request_uniforms(seed, 20, 16)), prompt, forced_frames=8)
            codes.append(np.stack([batch.step() for _ in range(4)]))
    assert codes[0].shape == (4, 2, 17)
    np.testing.assert_array_equal(*codes)


def test_rungs() -> None:
    assert batch_stage(SETTINGS) is DecodeBatch
    assert batch_stage(ServerSettings(buffers="host_roundtrip")) is HostRoundtripBatch


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"graphs": "fast"}, r"graphs='fast' is unknown; valid: off, compile, cuda_graph, full_step"),
        ({"buffers": "disk"}, r"buffers='disk' is unknown; valid: device, host_roundtrip"),
        ({"graphs": "cuda_graph", "buffers": "host_roundtrip"}, "needs buffers=device"),
    ],
)
def test_settings_that_make_no_sense(more: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        batch_stage(ServerSettings(**more))


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a CUDA device")
@pytest.mark.parametrize("graphs", ["compile", "cuda_graph", "full_step"])
def test_graphs_need_cuda(graphs: str) -> None:
    with pytest.raises(ConfigError, match=f"graphs='{graphs}' needs"):
        build_engine(ServerSettings(device="cpu", graphs=graphs))


def test_code2wav_runs_in_graphs_where_the_step_does() -> None:
    assert code2wav_stage(SETTINGS) is AudioWorker
    assert code2wav_stage(ServerSettings(graphs="compile")) is AudioWorker
    pytest.importorskip("triton", reason="Triton comes with CUDA builds of PyTorch")
    from reference_impl.engine.cuda.audio import GraphAudioWorker

    for graphs in ("cuda_graph", "full_step"):
        made = code2wav_stage(ServerSettings(graphs=graphs, max_batch=5, first_chunk_frames=2, chunk_frames=16))
        assert (made.func, made.keywords) == (GraphAudioWorker, {"rows": 5, "frames": 16})
