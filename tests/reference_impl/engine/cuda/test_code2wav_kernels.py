"""All of Code2Wav's kernels one after the other against its modules, without a GPU.

Triton's interpreter runs them, and ``conftest.py`` looks at every address.
"""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from small_model import INTERPRETED

from reference_impl.model.code2wav import Code2Wav
from reference_impl.model.code2wav_layers import SnakeBeta
from reference_impl.model.config import Code2WavConfig
from reference_impl.model.predictor_strategies import bucket

pytest.importorskip("triton", reason="Triton comes with CUDA builds of PyTorch")
import triton.language as tl

from reference_impl.engine.cuda import audio, convolution
from reference_impl.engine.cuda.code2wav import FastCode2Wav

pytestmark = pytest.mark.skipif(not INTERPRETED, reason="needs TRITON_INTERPRET=1")
CONFIG = Code2WavConfig(
    codebook_size=20, codebook_dim=16, latent_dim=32, hidden_size=16, num_heads=2, head_dim=16, intermediate_size=16,
    num_layers=1, sliding_window=4, decoder_dim=64, upsample_rates=(3, 2), upsampling_ratios=(2, 2),
)  # fmt: skip
SLOTS, MOST_STREAMS, MOST_FRAMES, TABLE = 4, 2, 4, 12


@pytest.fixture(scope="module")
def model() -> Code2Wav:
    built = Code2Wav(CONFIG, TABLE).requires_grad_(False)
    generator = torch.Generator().manual_seed(0)
    for module in built.modules():
        for parameter in module.parameters(recurse=False):
            fan_in = parameter[0].numel() if parameter.dim() > 1 else 25
            scale = 0.1 if isinstance(module, SnakeBeta) else fan_in**-0.5
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * scale)
    built.output_conv.conv.weight.mul_(0.1)
    built.prepare()
    return built


@pytest.fixture(autouse=True)
def sine(monkeypatch):
    monkeypatch.setattr(convolution, "libdevice", SimpleNamespace(fast_sinf=lambda x: tl.sin(x)))


def test_samples_and_addresses_of_streams_that_come_and_go_float32(model):
    fast = FastCode2Wav(model, SLOTS, MOST_STREAMS * MOST_FRAMES * CONFIG.samples_per_frame)
    state = model.new_state(SLOTS)
    generator = torch.Generator().manual_seed(1)
    with torch.inference_mode():
        # frames of which only some count; a spare stream has none; the last call goes on behind the rotary table
        for rows, lengths in (
            ([2, 0], [1, 1]), ([0, 2], [4, 2]), ([3, 2], [2, 4]), ([1, 3], [1, 0]), ([2, 3], [3, 4]), ([2, 3], [4, 4]),
        ):  # fmt: skip
            codes = torch.randint(20, (len(rows), 16, max(lengths)), generator=generator)
            got = fast.push(codes, torch.tensor(rows), torch.tensor(lengths))
            for stream, (row, length) in enumerate(zip(rows, lengths, strict=True)):
                if length and state.frames[row] + length <= TABLE:
                    heard = codes[stream : stream + 1, :, :length]
                    want = (model.push(heard, state, slice(row, row + 1)) * 32767).round()
                    assert want.abs().mean() > 300
                    torch.testing.assert_close(got[stream : stream + 1, : want.shape[1]].float(), want, rtol=0, atol=3)
            if rows == [1, 3]:
                fast.reset(torch.tensor([0]))
                state.reset(0)
        assert fast._frames.tolist() == [0, 1, 14, 10]


class InOrder:
    """A stream or an event where everything is done at once."""

    def wait_stream(self, stream) -> None: ...

    def record(self) -> None: ...

    def synchronize(self) -> None: ...


class HostTorch:
    """PyTorch without memory that only a driver can pin."""

    def __getattr__(self, name):
        return getattr(torch, name)

    def zeros(self, *size, pin_memory=False, **more):
        return torch.zeros(*size, **more)


class RunAgain(audio.Code2WavGraphs):
    """What a captured call would be is run again."""

    def _capture(self) -> None:
        self._graphs = {
            (count, length): (
                SimpleNamespace(replay=lambda count=count, length=length: self._run(count, length)),
                self._decoder._pcm,
            )
            for count in (1, 2, 4)
            for length in (1, 2, 4)
        }


def test_streams_in_one_call_keep_their_own_samples_float32(model, monkeypatch):
    """Unlike lengths, spare streams and other companions in every call, against each stream alone, frame by frame."""
    for name, value in (("Stream", lambda *a, **k: InOrder()), ("Event", InOrder), ("stream", lambda s: nullcontext())):
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(audio, "torch", HostTorch())
    graphs = RunAgain(SimpleNamespace(code2wav=model, device=torch.device("cpu")), SLOTS, SLOTS, MOST_FRAMES)
    codes = np.random.default_rng(2).integers(0, 20, (SLOTS, 9, 16))
    heard: list[list[np.ndarray]] = [[] for _ in range(SLOTS)]
    with torch.inference_mode():
        for call in ([(0, 4), (1, 3), (2, 1)], [(2, 3), (0, 1)], [(3, 2), (1, 4), (0, 3)], [(1, 1)]):
            begins = [sum(map(len, heard[slot])) // graphs.hop for slot, _ in call]
            chunks = [codes[slot, begin : begin + count] for (slot, count), begin in zip(call, begins, strict=True)]
            for (slot, count), pcm in zip(call, graphs.push(chunks, [slot for slot, _ in call]), strict=True):
                assert len(pcm) == count * graphs.hop
                heard[slot].append(pcm)
            streams = graphs._rows[0, : bucket(len(call))].tolist()
            assert len(set(streams)) == len(streams), "two of a call would write one stream's state"
        assert graphs._decoder._frames.tolist() == [8, 8, 4, 2, *[0] * SLOTS], "spare streams stand still"
        state = model.new_state(SLOTS)
        for slot, spoken in enumerate(heard):
            frames = sum(map(len, spoken)) // graphs.hop
            alone = model.push(torch.from_numpy(codes[slot : slot + 1, :frames]).mT, state, slice(slot, slot + 1))
            want = (alone * 32767).round().numpy()[0]
            np.testing.assert_allclose(np.concatenate(spoken), want, rtol=0, atol=3)
        graphs.reset([1])
        np.testing.assert_allclose(graphs.push([codes[1, :1]], [1])[0], heard[1][0][: graphs.hop], rtol=0, atol=3)
