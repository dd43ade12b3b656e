"""The models by name: the bundled tiny voice and the two released sizes of Qwen3-TTS (12 Hz).

Sizes, ids and tables of the released models come from their public configurations, the
CustomVoice one for both sizes; those of ``tiny`` from the bundled checkpoint.
"""

from __future__ import annotations

from dataclasses import replace

from reference_impl.model.config import (
    Code2WavConfig,
    CodecControl,
    ModelConfig,
    PredictorConfig,
    SamplingConfig,
    TalkerConfig,
    TextConfig,
    TransformerConfig,
)

CONTROL = CodecControl(
    pad_id=2148,
    bos_id=2149,
    think_id=2154,
    nothink_id=2155,
    think_bos_id=2156,
    think_eos_id=2157,
    languages={
        "english": 2050,
        "german": 2053,
        "spanish": 2054,
        "chinese": 2055,
        "japanese": 2058,
        "french": 2061,
        "sichuan_dialect": 2062,
        "korean": 2064,
        "russian": 2069,
        "italian": 2070,
        "portuguese": 2071,
        "beijing_dialect": 2074,
    },
    speakers={
        "vivian": 3065,
        "serena": 3066,
        "uncle_fu": 3010,
        "ryan": 3061,
        "aiden": 2861,
        "ono_anna": 2873,
        "sohee": 2864,
        "eric": 2875,
        "dylan": 2878,
    },
    dialects={"eric": "sichuan_dialect", "dylan": "beijing_dialect"},
)


TINY = ModelConfig(
    name="tiny",
    talker=TalkerConfig(
        transformer=TransformerConfig(
            hidden_size=320,
            num_layers=6,
            num_heads=4,
            num_kv_heads=2,
            head_dim=64,
            intermediate_size=800,
            rope_theta=10000.0,
        ),
        text_vocab_size=384,
        text_hidden_size=512,
        codec_vocab_size=3072,
        codec_eos_id=2150,
        first_suppressed_id=2048,
        control=replace(
            CONTROL,
            languages={"english": CONTROL.languages["english"]},
            speakers={"heart": 3061, "heart_low": 3062},
            dialects={},
        ),
    ),
    predictor=PredictorConfig(
        transformer=TransformerConfig(
            hidden_size=256,
            num_layers=3,
            num_heads=4,
            num_kv_heads=2,
            head_dim=64,
            intermediate_size=640,
            rope_theta=10000.0,
        ),
        codebook_size=512,
    ),
    code2wav=Code2WavConfig(
        codebook_size=512,
        codebook_dim=128,
        latent_dim=192,
        hidden_size=192,
        num_heads=3,
        head_dim=64,
        intermediate_size=512,
        num_layers=3,
        sliding_window=8,
        decoder_dim=256,
    ),
    text=TextConfig(
        task="custom_voice",
        instructions=False,
        tts_pad_id=329,
        tts_bos_id=330,
        tts_eos_id=331,
        spoken_form=True,
        max_chars=180,
        frames_per_char=1.3,
        frames_extra=20,
    ),
    sampling=SamplingConfig(temperature=0.7, predictor_temperature=0.7, repetition_penalty=1.0),
    max_frames=2047,
)


def _released(name: str, hidden_size: int, intermediate_size: int, instructions: bool) -> ModelConfig:
    stack = TransformerConfig(
        hidden_size=1024,
        num_layers=5,
        num_heads=16,
        num_kv_heads=8,
        head_dim=128,
        intermediate_size=3072,
        rope_theta=1e6,
    )
    return ModelConfig(
        name=name,
        talker=TalkerConfig(
            transformer=replace(stack, hidden_size=hidden_size, num_layers=28, intermediate_size=intermediate_size),
            text_vocab_size=151936,
            text_hidden_size=2048,
            codec_vocab_size=3072,
            codec_eos_id=2150,
            first_suppressed_id=2048,
            control=CONTROL,
        ),
        predictor=PredictorConfig(transformer=stack, codebook_size=2048),
        code2wav=Code2WavConfig(
            codebook_size=2048,
            codebook_dim=512,
            latent_dim=1024,
            hidden_size=512,
            num_heads=16,
            head_dim=64,
            intermediate_size=1024,
            num_layers=8,
            sliding_window=72,
            decoder_dim=1536,
        ),
        text=TextConfig(task="custom_voice", instructions=instructions),
        cuda_dtype="bfloat16",
    )


QWEN3_TTS_0_6B = _released("qwen3_tts_0_6b", hidden_size=1024, intermediate_size=3072, instructions=False)
QWEN3_TTS_1_7B = _released("qwen3_tts_1_7b", hidden_size=2048, intermediate_size=6144, instructions=True)

PRESETS = {config.name: config for config in (TINY, QWEN3_TTS_0_6B, QWEN3_TTS_1_7B)}
