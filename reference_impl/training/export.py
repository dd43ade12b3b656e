"""Write a checkpoint folder from the latest training states.

Talker and code predictor are the averaged weights, Code2Wav the trained decoder; what has not
been trained yet is the base checkpoint's, and so are configuration and tokenizer. float16 and a
model card. The encoder is written beside it (``encoder.safetensors`` in STATE), since more
training needs it and speaking does not.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from reference_impl.loading.released_config import read_config
from reference_impl.model.code2wav import Code2Wav
from reference_impl.model.config import ModelConfig
from reference_impl.model.talker import Talker
from reference_impl.training.encode import load_codec
from reference_impl.training.lm_model import LanguageModel
from reference_impl.training.released import load_base, write_checkpoint
from reference_impl.training.state import load_state

UNUSED_LOGIT = -100.0


def export(state: Path, base: Path, out: Path) -> ModelConfig:
    """Write ``out``; returns its configuration, which is that of ``base``."""
    config = read_config(base)
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
        silence_unused(talker, config.predictor.codebook_size, saved["direction"])
    if (state / "codec.pt").exists():
        codec = load_codec(state, base, cpu)
        code2wav = codec.code2wav
        spare = {f"encoder.{n}": p for n, p in codec.encoder.named_parameters()}
        spare |= {f"quantiser.{n}": p for n, p in codec.quantiser.named_parameters()}
        spare |= {f"phonemes.{n}": p for n, p in codec.phonemes.named_parameters()}
        save_file({n: p.detach().half().contiguous() for n, p in spare.items()}, state / "encoder.safetensors")
    swap_first_code(talker, code2wav, rarest_code(state, config.predictor.codebook_size))
    write_checkpoint(out, base, config, talker, predictor, code2wav)
    (out / "README.md").write_text(model_card(state, config), encoding="utf-8")
    return config


def silence_unused(talker: Talker, codes: int, direction: Tensor) -> None:
    """Make ids that are neither one of the ``codes`` nor the end impossible to draw.

    ``direction`` [H] has a scalar product of about 1 with every hidden state (:meth:`.lm.LmTrainer.direction`);
    released servers mask only the last 1024 ids, and this voice has fewer codes than the ids before them.
    """
    used = [*range(codes), talker.config.codec_eos_id]
    unused = torch.ones(talker.config.codec_vocab_size, dtype=torch.bool)
    unused[used] = False
    with torch.no_grad():
        talker.codec_head.weight[unused] = UNUSED_LOGIT * direction.float()


def rarest_code(state: Path, size: int) -> int:
    """The code of codebook 0 that the corpus uses least; 0 without a corpus."""
    counts = np.zeros(size, np.int64)
    for path in sorted((state / "audio").glob("c[0-9]*.codes")):
        with path.open("rb") as handle:
            counts += np.bincount(np.load(handle, allow_pickle=False)[:, 0], minlength=size)
    return int(counts.argmin()) if counts.any() else 0


def swap_first_code(talker: Talker, code2wav: Code2Wav, code: int) -> None:
    """Give ``code`` of codebook 0 the id 0 and the other way round: some servers never draw id 0."""
    order = [code, 0]
    with torch.no_grad():
        for table in (talker.codec_embedding.weight, talker.codec_head.weight, code2wav.quantizer.codebooks[0]):
            table[[0, code]] = table[order].clone()


_TEMPLATE = """# The tiny voice

English text to speech in the three stages of Qwen3-TTS (12.5 frames a second, 16 codebooks,
24 kHz), small enough for two CPU cores: float16, about 19 M parameters. It exists so that a
benchmark of a speech server has speech to check without a download or a GPU; it is not meant
to please.

- **Voices**: {voices}: the teacher's own, and the same shifted down (every third training sentence).
- **Data**: {hours} hours synthesised by hibari-tts 0.2.1 (Apache-2.0; distilled from Kokoro-82M,
  Apache-2.0), voice "heart", reading WordNet 3.0 examples and definitions (permissive licence),
  the World English Bible (public domain), fortune files, the Debian Reference, and templates
  written for this project. No human recording was used. The sentences of the bundled data set
  and of `reference_impl/training/evaluation_set` are not in it.
- **Training**: `python -m reference_impl.training.all` ({steps} steps of the language model,
  {seen} utterances read). {codec}
- **Validation**, teacher-forced, one chunk that was never trained on: {validation}
- **Licence**: Apache-2.0, as the rest of this repository.
- **Accuracy**: measured by `omni-bench run`; see `reports/`.
- **Layout**: that of the released Qwen3-TTS CustomVoice checkpoints, so that other servers load it: text at once,
  one language tag (English) or none, positions numbered through, end token {end}.
- **Limits**: trained on at most {max_chars} characters a text (the bundled server writes numbers and
  abbreviations as words first and splits longer texts at sentence ends; other servers read the text as it is),
  English only, no instructions, no cloning: the codec's encoder holds random numbers. Speech begins about 160 ms
  into the file.
"""


def _last(path: Path, wanted: str) -> dict[str, Any]:
    """The last log line that holds the key ``wanted``, or nothing."""
    if not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return next((row for row in reversed(rows) if wanted in row), {})


def model_card(state: Path, config: ModelConfig) -> str:
    """Markdown. A figure whose log is missing is n/a."""
    lm = _last(state / "logs" / "lm.jsonl", "val_code0")
    start = _last(state / "logs" / "lm.jsonl", "resumed_at")
    codec = _last(state / "logs" / "codec.jsonl", "val_mel")
    names = ("val_code0", "val_codes", "val_accuracy0", "val_phoneme_accuracy", "val_end_accuracy")
    return _TEMPLATE.format(
        voices=", ".join(f"`{v}`" for v in config.talker.control.speakers),
        hours=f"{lm['hours']:.1f}" if "hours" in lm else "n/a",
        steps=lm.get("step", "n/a"),
        seen=lm.get("utterances_seen", "n/a"),
        codec=f"Codec: log-mel distance {codec['val_mel']:.3f} after the stage `{codec['what']}`." if codec else "",
        validation=", ".join(f"{n.removeprefix('val_')} {lm[n]:.3f}" for n in names if n in lm) or "n/a",
        end=config.talker.codec_eos_id,
        max_chars=config.text.max_chars,
    ) + (f"\nTrained on {start['device']}.\n" if start else "")
