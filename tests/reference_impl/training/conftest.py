"""A toy model, a toy corpus and toy audio: every stage of training in seconds, without the teacher."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from released_folder import save_released
from repository import ROOT

from reference_impl.loading.checkpoint import Model
from reference_impl.loading.released_config import read_config
from reference_impl.model.code2wav import Code2Wav
from reference_impl.model.config import ModelConfig, TransformerConfig
from reference_impl.training import audio_pool
from reference_impl.training.corpus import Corpus, load_corpus, save_corpus
from reference_impl.training.lm_model import LanguageModel
from reference_impl.training.synthesise import chunk_name

BUNDLED = ROOT / "reference_impl" / "checkpoints" / "tiny"
SENTENCES = ("the dog barks.", "is it late?", "two cats, one mouse.", "good morning!", "we saw the sea.", "no.")


@dataclass(frozen=True)
class Toy:
    """Paths of a toy project: ``base`` checkpoint, ``corpus`` file, ``state`` folder with audio."""

    base: Path
    corpus: Path
    state: Path
    config: ModelConfig


def small_transformer(hidden: int) -> TransformerConfig:
    return TransformerConfig(
        hidden_size=hidden, num_layers=1, num_heads=2, num_kv_heads=1, head_dim=16, intermediate_size=32, rope_theta=1e4
    )


def toy_config() -> ModelConfig:
    """The bundled configuration, narrow, with 4 codebooks of 16; the same upsampling."""
    full = read_config(BUNDLED)
    return replace(
        full,
        talker=replace(full.talker, transformer=small_transformer(32), text_vocab_size=280, text_hidden_size=24),
        predictor=replace(full.predictor, transformer=small_transformer(24), codebook_size=16, num_code_groups=4),
        code2wav=replace(
            full.code2wav,
            codebook_size=16,
            codebook_dim=16,
            latent_dim=16,
            hidden_size=16,
            num_heads=1,
            head_dim=16,
            intermediate_size=16,
            num_layers=1,
            decoder_dim=32,
            num_code_groups=4,
        ),
    )


def write_chunk(folder: Path, number: int, corpus: Corpus, rng: np.random.Generator) -> None:
    """Tones of random pitch in the layout of the synthesis stage."""
    frames = rng.integers(4, 9, len(corpus))
    total = int(frames.sum())
    time = np.arange(total * 1920) / 24_000
    wave = 0.3 * np.sin(2 * np.pi * rng.uniform(150, 400) * time) + 0.02 * rng.standard_normal(len(time))
    np.savez(
        folder / f"{chunk_name(number)}.npz",
        frames=frames.astype(np.int32),
        sentences=np.arange(len(corpus), dtype=np.int32),
        voices=(np.arange(len(corpus)) % 2).astype(np.uint8),
        labels=rng.integers(0, 178, (total, 2)).astype(np.uint8),
    )
    np.save(folder / f"{chunk_name(number)}.npy", (wave * 32767).astype(np.int16).reshape(-1, 1920))


@pytest.fixture(scope="session")
def toy_base(tmp_path_factory) -> tuple[Path, ModelConfig]:
    """A random checkpoint of the toy configuration in the released layout."""
    folder = tmp_path_factory.mktemp("base")
    config = toy_config()
    torch.manual_seed(3)
    model = LanguageModel(config)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=1 / parameter.shape[-1] ** 0.5)
    torch.manual_seed(3)
    code2wav = Code2Wav(config.code2wav, max_frames=257)
    torch.nn.init.normal_(code2wav.quantizer.codebooks)
    cpu = torch.device("cpu")
    save_released(folder, Model(config, model.talker, model.predictor, code2wav, cpu, torch.float32), size="0b6")
    path = folder / "config.json"
    raw = json.loads(path.read_text(encoding="utf-8"))
    raw["omni_bench"] = {"name": "toy", "spoken_form": True, "max_chars": 180}
    path.write_text(json.dumps(raw), encoding="utf-8")
    return folder, read_config(folder)


@pytest.fixture(autouse=True)
def synthesis_is_done(monkeypatch) -> None:
    """Nobody adds chunks while a test runs: training need not wait to be sure."""
    monkeypatch.setattr(audio_pool, "QUIET_S", 0.0)


@pytest.fixture
def toy(tmp_path, toy_base) -> Toy:
    """A fresh toy project with three chunks of audio."""
    base, config = toy_base
    encoded = [(s.encode(), s.encode(), bytes([0, 5, 6, 7, 0])) for s in SENTENCES]
    save_corpus(tmp_path / "corpus.npz.xz", encoded, {"seed": 0})
    audio = tmp_path / "state" / "audio"
    audio.mkdir(parents=True)
    corpus = load_corpus(tmp_path / "corpus.npz.xz")
    rng = np.random.default_rng(0)
    for number in range(3):
        write_chunk(audio, number, corpus, rng)
    return Toy(base, tmp_path / "corpus.npz.xz", tmp_path / "state", config)
