"""Random weights at a preset's shapes: everything about speed, nothing about speech.

Made directly on the device in the wanted type, so that the largest preset needs no memory on
the host. The scales keep every activation finite and the audio audible and unclipped: a
matrix is normal with variance 1 / fan-in, norms are 1, biases 0, the residual branches of
Code2Wav are damped. The same seed gives the same weights on the same kind of device.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_impl.loading.checkpoint import Model, assemble, empty_stages
from reference_impl.loading.qwen_tokenizer import WordHashTokenizer
from reference_impl.model.code2wav import Code2Wav
from reference_impl.model.code2wav_layers import ConvNeXtBlock, SnakeBeta, WindowLayer
from reference_impl.model.config import ModelConfig

SEED = 0
LAYER_SCALE = 0.1
OUTPUT_RMS = 0.1  # -20 dBFS, about that of speech
PROBE_FRAMES = 8


def random_model(
    config: ModelConfig, device: torch.device, dtype: torch.dtype, max_positions: int, max_frames: int, seed: int = SEED
) -> Model:
    """The stages of ``config`` with random weights; utterance lengths are forced from the text."""
    talker, predictor, code2wav = stages = empty_stages(config, device, dtype, max_positions, max_frames)
    generator = torch.Generator(device).manual_seed(seed)
    with torch.no_grad():
        for stage in stages:
            for module in stage.modules():
                _fill(module, generator)
        for table in (predictor.embeddings, predictor.heads):
            table.normal_(0, table.shape[-1] ** -0.5, generator=generator)
        code2wav.quantizer.codebooks.normal_(generator=generator)
    model = assemble(
        config,
        (talker, predictor, code2wav),
        tokenizer=WordHashTokenizer(config.talker.text_vocab_size),
        forced_lengths=True,
    )
    _set_level(code2wav, generator)
    return model


def _set_level(code2wav: Code2Wav, generator: torch.Generator) -> None:
    """Scale the last convolution so that random codes come out at OUTPUT_RMS, far from the clamp at full scale."""
    weight = code2wav.output_conv.conv.weight
    shape = (1, code2wav.config.num_code_groups, PROBE_FRAMES)
    codes = torch.randint(code2wav.config.codebook_size, shape, generator=generator, device=weight.device)
    with torch.inference_mode():
        # the probe stays below the clamp: what comes out of these weights is of the order of 10
        quiet = 1e-4
        weight.mul_(quiet)
        rms = code2wav.decode(codes).float().square().mean().sqrt()
        weight.mul_(OUTPUT_RMS / rms.item())
    code2wav.output_conv.prepare()


def _fill(module: nn.Module, generator: torch.Generator) -> None:
    """The module's own parameters, not those of its children."""
    for name, parameter in module.named_parameters(recurse=False):
        if name == "bias" or isinstance(module, SnakeBeta):
            parameter.zero_()
        elif isinstance(module, WindowLayer | ConvNeXtBlock):  # LayerScale, gamma
            parameter.fill_(LAYER_SCALE)
        elif parameter.dim() == 1:
            parameter.fill_(1.0)
        elif isinstance(module, nn.Linear | nn.Embedding | nn.Conv1d | nn.ConvTranspose1d):
            parameter.normal_(0, _fan_in(module, parameter) ** -0.5, generator=generator)


def _fan_in(module: nn.Module, weight: Tensor) -> float:
    """How many products make one output value."""
    if isinstance(module, nn.ConvTranspose1d):  # [in, out, kernel]; only kernel / stride taps meet
        return weight.shape[0] * weight.shape[2] / module.stride[0]
    return weight[0].numel()
