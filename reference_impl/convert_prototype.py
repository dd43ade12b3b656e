"""Convert the prototype's tiny weights to the released tensor names: run once, kept as a record.

    python -m reference_impl.convert_prototype SOURCE_FOLDER TARGET_FOLDER

SOURCE_FOLDER holds talker.safetensors, predictor.safetensors and code2wav.safetensors with
the prototype's names; TARGET_FOLDER receives the same three files under the names that
``checkpoint.py`` reads, float16, and config.json of the preset ``tiny``.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from reference_impl.presets import TINY


def _layer_name(name: str) -> str:
    """The prototype kept the feed-forward's matrices directly in the layer."""
    return re.sub(r"\.(gate|up|down)_proj\.", r".mlp.\1_proj.", name)


def talker_name(name: str) -> str:
    """Prototype name of a talker tensor -> released name."""
    if name.startswith("talker."):
        return _layer_name("talker.model." + name.removeprefix("talker."))
    return f"talker.{name}" if name.startswith("codec_head.") else f"talker.model.{name}"


def predictor_name(name: str) -> str:
    """Prototype name of a code predictor tensor -> released name."""
    prefix = "talker.code_predictor."
    for old, new in (
        (r"predictor\.(.+)", r"model.\1"),
        (r"cp_embedding\.(.+)", r"model.codec_embedding.\1"),
        (r"cp_head\.(.+)", r"lm_head.\1"),
        (r"cp_proj\.(.+)", r"small_to_mtp_projection.\1"),
    ):
        if re.fullmatch(old, name):
            return prefix + _layer_name(re.sub(old, new, name))
    raise ValueError(f"{name}: not a code predictor tensor of the prototype")


def code2wav_tensors(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Prefix ``decoder.``; a codebook becomes a sum with usage 1; RVQ projections become 1×1 convolutions."""
    out: dict[str, Tensor] = {}
    for name, value in tensors.items():
        if match := re.fullmatch(r"quantizer\.(rvq_\w+)\.layers\.(\d+)\.embed", name):
            book = f"decoder.quantizer.{match[1]}.vq.layers.{match[2]}._codebook"
            out[f"{book}.embedding_sum"] = value
            out[f"{book}.cluster_usage"] = torch.ones(value.shape[0], dtype=value.dtype)
        elif name.startswith("quantizer.") and name.endswith("output_proj.weight"):
            out[f"decoder.{name}"] = value[..., None].contiguous()
        else:
            out[f"decoder.{name}"] = value
    return out


def main() -> None:
    """Command line; see the module docstring."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    args = parser.parse_args()
    args.target.mkdir(parents=True, exist_ok=True)
    talker = {talker_name(n): t.half() for n, t in load_file(args.source / "talker.safetensors").items()}
    # the head also predicts the end token (id 512), which is never an input: the released form keeps a row for it
    embedding = talker["talker.model.codec_embedding.weight"]
    end_row = torch.zeros(1, embedding.shape[1], dtype=embedding.dtype)
    talker["talker.model.codec_embedding.weight"] = torch.cat([embedding, end_row])
    predictor = {predictor_name(n): t.half() for n, t in load_file(args.source / "predictor.safetensors").items()}
    code2wav = {n: t.half() for n, t in code2wav_tensors(load_file(args.source / "code2wav.safetensors")).items()}
    for name, tensors in (("talker", talker), ("predictor", predictor), ("code2wav", code2wav)):
        path = args.target / f"{name}.safetensors"
        save_file(tensors, path, metadata={"format": "pt"})
        path.chmod(0o644)
    # these first weights had heard nothing longer than 105 characters
    config = replace(TINY, text=replace(TINY.text, max_chars=105))
    (args.target / "config.json").write_text(config.to_json() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
