"""Which rung of the ladder runs, and that every rung that can run here gives the same codes."""

from __future__ import annotations

import pytest
import torch

from omni_bench.errors import ConfigError
from reference_impl.build import build_engine
from reference_impl.engine.code2wav_worker import AudioWorker
from reference_impl.engine.stages import batch_stage, code2wav_stage
from reference_impl.settings import ServerSettings

SETTINGS = ServerSettings(max_batch=3, max_seq_len=160, device="cpu")


def test_a_rung_that_is_none() -> None:
    with pytest.raises(ConfigError, match=r"graphs='fast' is unknown; valid: off, compile, cuda_graph, full_step"):
        batch_stage(ServerSettings(graphs="fast"))


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
