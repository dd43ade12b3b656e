"""Write a checkpoint folder from the latest training states.

    python -m reference_impl.training.export --state STATE --base CHECKPOINT --out FOLDER

Talker and code predictor are the averaged weights, Code2Wav the trained decoder; what has not
been trained yet is the base checkpoint's. float16, released tensor names, ``config.json`` and a
model card. The encoder is written beside it (``encoder.safetensors`` in STATE), since more
training needs it and speaking does not.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import save_file

from reference_impl.model.config import ModelConfig, config_from_json
from reference_impl.training.encode import load_codec
from reference_impl.training.lm_model import LanguageModel
from reference_impl.training.model_card import model_card
from reference_impl.training.released import load_base, write_checkpoint
from reference_impl.training.sentences import MAX_CHARS
from reference_impl.training.state import load_state


def export(state: Path, base: Path, out: Path, max_chars: int | None = None) -> ModelConfig:
    """Write ``out``; returns its configuration. ``max_chars``: the longest segment (None: that of the corpus)."""
    config = config_from_json(base / "config.json")
    config = replace(config, text=replace(config.text, max_chars=max_chars or MAX_CHARS))
    cpu = torch.device("cpu")
    known = load_base(base)
    talker, predictor, code2wav = known.talker, known.predictor, known.code2wav
    saved = load_state(state / "lm.pt", cpu)
    if saved:
        model = LanguageModel(config)
        with torch.no_grad():
            for parameter, value in zip(model.parameters(), saved["average"], strict=True):
                parameter.copy_(value)
        talker, predictor = model.talker, model.predictor
    if (state / "codec.pt").exists():
        codec = load_codec(state, base, cpu)
        code2wav = codec.code2wav
        spare = {f"encoder.{n}": p for n, p in codec.encoder.named_parameters()}
        spare |= {f"quantiser.{n}": p for n, p in codec.quantiser.named_parameters()}
        spare |= {f"phonemes.{n}": p for n, p in codec.phonemes.named_parameters()}
        save_file({n: p.detach().half().contiguous() for n, p in spare.items()}, state / "encoder.safetensors")
    write_checkpoint(out, config, talker, predictor, code2wav)
    (out / "README.md").write_text(model_card(state, config), encoding="utf-8")
    return config


def main() -> None:
    """Command line; see the module docstring."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--max-chars", type=int, default=None)
    args = parser.parse_args()
    export(args.state, args.base, args.out, args.max_chars)
    print(f"{args.out}: written")


if __name__ == "__main__":
    main()
