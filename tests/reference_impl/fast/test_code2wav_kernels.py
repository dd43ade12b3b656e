"""All of Code2Wav's kernels one after the other against its modules, without a GPU.

Triton's interpreter runs them, and ``conftest.py`` looks at every address.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from reference_impl.code2wav import Code2Wav
from reference_impl.code2wav_layers import SnakeBeta
from reference_impl.config import Code2WavConfig
from tests.reference_impl.fast.small_model import INTERPRETED

pytest.importorskip("triton", reason="Triton comes with CUDA builds of PyTorch")
import triton.language as tl

from reference_impl.fast import convolution
from reference_impl.fast.code2wav import FastCode2Wav

pytestmark = pytest.mark.skipif(not INTERPRETED, reason="needs TRITON_INTERPRET=1")
CONFIG = Code2WavConfig(
    codebook_size=20, codebook_dim=16, latent_dim=32, hidden_size=16, num_heads=2, head_dim=16, intermediate_size=16,
    num_layers=1, sliding_window=4, decoder_dim=64, upsample_rates=(3, 2), upsampling_ratios=(2,),
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


def test_samples_and_addresses_of_streams_that_come_and_go_float32(model, monkeypatch):
    monkeypatch.setattr(convolution, "libdevice", SimpleNamespace(fast_sinf=lambda x: tl.sin(x)))
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
