"""The official classes at a small random configuration, saved as a released checkpoint folder.

Everything of ``qwen-tts`` and ``transformers`` that the comparison touches is imported here.
The sizes are small, but every ratio that could hide a mistake is kept odd: widths differ from
heads × head size, the predictor's width from the talker's (or not, as in the 0.6B models), 16
codebooks, a window shorter than the sequence, ids in other places than released ones.
"""

from __future__ import annotations

import importlib.machinery
import json
import sys
import types
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

CODES, CONTROL = 64, 1024  # the official rule: the last 1024 ids of the codec vocabulary are control ids
LANGUAGES = {"chinese": CODES + 55, "english": CODES + 50, "beijing_dialect": CODES + 74}
SPEAKERS = {"ada": CODES + 1000, "dylan": CODES + 830}
DIALECTS = {"ada": False, "dylan": "beijing_dialect"}
EOS = CODES + 102
MERGES = (
    "a s", "as s", "i s", "t a", "n t", "is ta", "ass ista", "assista nt", "u s", "e r", "us er", "Ġ t", "h e", "Ġt he",
    "i n", "in g",
)  # fmt: skip
MARKERS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tts_pad>", "<tts_text_bos>", "<tts_text_eod>")


@dataclass(frozen=True)
class Kind:
    """One kind of checkpoint to compare. ``predictor_hidden`` equal to HIDDEN: no projection, as in the 0.6B models."""

    task: str
    size: str
    predictor_hidden: int
    shards: bool = False

    @property
    def name(self) -> str:
        """For the table."""
        return f"{self.task} {self.size}"


HIDDEN = 64
KINDS = (
    Kind("custom_voice", "1b7", predictor_hidden=48, shards=True),
    Kind("voice_design", "1b7", predictor_hidden=48),
    Kind("base", "0b6", predictor_hidden=HIDDEN),
)


def import_official() -> types.ModuleType:
    """``qwen_tts``, without the audio package that only its other (25 Hz) tokenizer uses.

    That tokenizer's module imports torchaudio's Kaldi front end, whose binaries want CUDA; an
    empty module in its place is enough.
    """
    for name in ("torchaudio", "torchaudio.compliance", "torchaudio.compliance.kaldi"):
        if name not in sys.modules:
            stub = types.ModuleType(name)
            stub.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
            stub.__path__ = []
            sys.modules[name] = stub
    import qwen_tts

    return qwen_tts


def save_checkpoint(folder: Path, kind: Kind, seed: int) -> None:
    """Write a random checkpoint of a kind in the released layout."""
    import_official()
    from qwen_tts.core.models.configuration_qwen3_tts import Qwen3TTSConfig
    from qwen_tts.core.models.modeling_qwen3_tts import Qwen3TTSForConditionalGeneration

    vocabulary = save_tokenizer(folder)
    config = Qwen3TTSConfig(
        talker_config=_talker_config(kind, len(vocabulary)),
        speaker_encoder_config={"enc_dim": HIDDEN, "sample_rate": 24000},
        tokenizer_type="qwen3_tts_tokenizer_12hz",
        tts_model_size=kind.size,
        tts_model_type=kind.task,
        im_start_token_id=vocabulary["<|im_start|>"],
        im_end_token_id=vocabulary["<|im_end|>"],
        tts_pad_token_id=vocabulary["<tts_pad>"],
        tts_bos_token_id=vocabulary["<tts_text_bos>"],
        tts_eos_token_id=vocabulary["<tts_text_eod>"],
    )
    model = Qwen3TTSForConditionalGeneration(config).float()
    randomise(model, seed)
    # an end token that is never the likeliest: greedy decoding then continues for as many frames as needed
    model.talker.codec_head.weight.data[EOS] *= 0.01
    model.save_pretrained(folder, max_shard_size="1MB" if kind.shards else "5GB")
    path = folder / "config.json"
    raw = json.loads(path.read_text(encoding="utf-8"))
    raw["speaker_encoder_config"] = {"enc_dim": HIDDEN, "sample_rate": 24000}  # the class takes no other saved key
    path.write_text(json.dumps(raw), encoding="utf-8")
    generation = {
        "do_sample": True,
        "temperature": 0.9,
        "top_k": 50,
        "top_p": 1.0,
        "repetition_penalty": 1.05,
        "subtalker_dosample": True,
        "subtalker_temperature": 0.9,
        "subtalker_top_k": 50,
        "subtalker_top_p": 1.0,
        "max_new_tokens": 8192,
    }
    (folder / "generation_config.json").write_text(json.dumps(generation), encoding="utf-8")
    save_codec(folder / "speech_tokenizer", seed + 1)


def _talker_config(kind: Kind, text_vocabulary: int) -> dict:
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 24}
    rope = {"type": "default", "rope_type": "default", "interleaved": True, "mrope_section": [4, 4, 4]}
    return {
        **heads,
        "hidden_size": HIDDEN,
        "intermediate_size": 112,
        "num_hidden_layers": 3,
        "vocab_size": CODES + CONTROL,
        "text_vocab_size": text_vocabulary,
        "text_hidden_size": 80,
        "num_code_groups": 16,
        "rope_theta": 1000000,
        "rope_scaling": rope,
        "codec_pad_id": CODES + 100,
        "codec_bos_id": CODES + 101,
        "codec_eos_token_id": EOS,
        "codec_think_id": CODES + 106,
        "codec_nothink_id": CODES + 107,
        "codec_think_bos_id": CODES + 108,
        "codec_think_eos_id": CODES + 109,
        "codec_language_id": LANGUAGES,
        "spk_id": SPEAKERS if kind.task == "custom_voice" else {},
        "spk_is_dialect": DIALECTS if kind.task == "custom_voice" else {},
        "code_predictor_config": {
            **heads,
            "hidden_size": kind.predictor_hidden,
            "intermediate_size": 96,
            "num_hidden_layers": 2,
            "vocab_size": CODES,
            "num_code_groups": 16,
            "rope_theta": 1000000,
        },
    }


def save_tokenizer(folder: Path) -> dict[str, int]:
    """A byte-level tokenizer of the Qwen2 kind with a few merges; returns its vocabulary, markers included."""
    from tokenizers.pre_tokenizers import ByteLevel

    vocabulary = {character: index for index, character in enumerate(sorted(ByteLevel.alphabet()))}
    for merge in MERGES:
        vocabulary.setdefault(merge.replace(" ", ""), len(vocabulary))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(MERGES) + "\n", encoding="utf-8")
    added = {}
    for marker in MARKERS:
        vocabulary[marker] = len(vocabulary)
        flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
        added[str(vocabulary[marker])] = {"content": marker, **flags}
    config = {
        "tokenizer_class": "Qwen2Tokenizer",
        "added_tokens_decoder": added,
        "additional_special_tokens": list(MARKERS[1:]),
        "pad_token": MARKERS[0],
        "eos_token": None,  # vLLM ends a request at its id too, and in a small vocabulary that is also a code
        "bos_token": None,
        "unk_token": None,
        "errors": "replace",
        "split_special_tokens": False,
        "model_max_length": 131072,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return vocabulary


def save_codec(folder: Path, seed: int) -> None:
    """A random speech tokenizer (encoder and decoder) in the released layout."""
    from qwen_tts.core.tokenizer_12hz.configuration_qwen3_tts_tokenizer_v2 import Qwen3TTSTokenizerV2Config
    from qwen_tts.core.tokenizer_12hz.modeling_qwen3_tts_tokenizer_v2 import Qwen3TTSTokenizerV2Model
    from transformers import EncodecFeatureExtractor

    decoder = {
        "codebook_size": CODES,
        "codebook_dim": 32,
        "latent_dim": 40,
        "hidden_size": 24,
        "num_attention_heads": 3,
        "num_key_value_heads": 3,
        "head_dim": 16,
        "intermediate_size": 56,
        "num_hidden_layers": 3,
        "num_quantizers": 16,
        "sliding_window": 10,
        "decoder_dim": 64,
    }
    encoder = {
        "hidden_size": 32,
        "num_filters": 4,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "head_dim": 8,
        "intermediate_size": 48,
        "codebook_size": CODES,
        "codebook_dim": 16,
        "vector_quantization_hidden_dimension": 16,
        "num_quantizers": 20,
        "upsample_groups": 32,
    }
    config = Qwen3TTSTokenizerV2Config(encoder_config=encoder, decoder_config=decoder)
    model = Qwen3TTSTokenizerV2Model(config).float()
    randomise(model, seed)
    _set_level(model.decoder, seed)
    model.save_pretrained(folder)
    EncodecFeatureExtractor(sampling_rate=24000).save_pretrained(folder)


def _set_level(decoder: nn.Module, seed: int) -> None:
    """Scale the last convolution so that the waveform stays away from the clamp at full scale."""
    last = decoder.decoder[-1].conv
    codes = torch.randint(0, CODES, (1, 16, 20), generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        last.bias.zero_()
        last.weight *= 1e-4
        last.weight *= 0.1 / decoder(codes).std()


def randomise(model: nn.Module, seed: int) -> None:
    """Give every parameter and codebook a value that shows whether it was used: no zeros, ones or tiny scales."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in sorted([*model.named_parameters(), *model.named_buffers()], key=lambda item: item[0]):
            if name.endswith("cluster_usage"):
                tensor.copy_(0.5 + torch.rand(tensor.shape, generator=generator))
            elif name.endswith(("embedding_sum", "embed_sum")):
                tensor.copy_(torch.randn(tensor.shape, generator=generator))
            elif isinstance(tensor, nn.Parameter):
                tensor.copy_(_random_like(name, tensor, generator))


def _random_like(name: str, tensor: Tensor, generator: torch.Generator) -> Tensor:
    noise = torch.randn(tensor.shape, generator=generator)
    if tensor.dim() > 1:
        if "embedding" in name:
            return noise
        # damped residual units: large inputs of a sine would turn rounding into differences of every size
        return (0.1 if "conv2.conv" in name else 1.0) * noise / tensor[0].numel() ** 0.5
    if name.endswith((".bias", "alpha", "beta")):
        return 0.2 * noise
    return 1 + 0.3 * noise  # norms and scales of branches
