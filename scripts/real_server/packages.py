"""Speak the small voice with a package that is no server, and judge it.

    omni-bench voice my_voice
    PACKAGE_PYTHON scripts/real_server/packages.py speak qwen-tts my_voice OUT    (or faster-qwen3-tts, on CUDA)
    python scripts/real_server/packages.py judge OUT --model base

The first step needs the package alone (`make parity` builds an environment with qwen-tts), the second omni-bench alone.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import sys
import time
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

META = Path(__file__).parents[2] / "omni_bench/datasets/data/seed_tts_mini/en/meta.lst"
PACKAGES = ("qwen-tts", "faster-qwen3-tts")


def _without_torchaudio() -> None:
    """Empty modules in the place of torchaudio, where it is not installed or wants CUDA's libraries.

    qwen-tts imports its Kaldi front end for the 25 Hz tokenizer, which this voice does not use.
    """
    try:
        import torchaudio  # noqa: F401
    except (ImportError, OSError):
        for name in ("torchaudio", "torchaudio.compliance", "torchaudio.compliance.kaldi"):
            sys.modules[name] = ModuleType(name)
            sys.modules[name].__spec__ = ModuleSpec(name, None, is_package=True)


def speak(package: str, voice: str, out: Path, count: int, speaker: str) -> None:
    """WAV files of the first ``count`` sentences of seed_tts_mini, and what was asked for in ``spoken.json``."""
    import soundfile
    import torch

    _without_torchaudio()
    cuda = torch.cuda.is_available()
    started = time.perf_counter()
    if package == "qwen-tts":
        from qwen_tts import Qwen3TTSModel

        model: Any = Qwen3TTSModel.from_pretrained(voice, device_map="cuda" if cuda else "cpu", dtype=torch.float32)
    else:
        from faster_qwen3_tts import FasterQwen3TTS

        model = FasterQwen3TTS.from_pretrained(voice, device="cuda" if cuda else "cpu", dtype=torch.float32)
    loaded_s = time.perf_counter() - started
    rows = [line.split("|") for line in META.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    # qwen-tts reads the voice's generation_config.json, the other one has defaults of its own
    sampling = {} if package == "qwen-tts" else {"temperature": 0.7, "repetition_penalty": 1.0}
    texts = [row[3] for row in rows][:count]
    out.mkdir(parents=True, exist_ok=True)
    audio_s = speaking_s = 0.0
    for index, text in enumerate(texts):
        torch.manual_seed(index)
        started = time.perf_counter()
        (wave,), rate_hz = model.generate_custom_voice(text=text, language="english", speaker=speaker, **sampling)
        speaking_s += time.perf_counter() - started
        audio_s += len(wave) / rate_hz
        soundfile.write(out / f"{index:03}.wav", wave, rate_hz, subtype="PCM_16")
    version = importlib.metadata.version(package)
    found = {"package": package, "version": version, "torch": torch.__version__, "cuda": cuda, "speaker": speaker}
    found |= {"texts": texts, "loaded_s": loaded_s, "audio_s": audio_s, "speaking_s": speaking_s}
    (out / "spoken.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"{package} {version}: {len(texts)} sentences, {audio_s:.1f} s of audio, RTF {speaking_s / audio_s:.2f}")


def judge(out: Path, model: str) -> None:
    """The word error rate of what ``speak`` left in ``out``."""
    from omni_bench.accuracy.asr.clips import AsrClip
    from omni_bench.accuracy.asr.pool import transcribe
    from omni_bench.accuracy.wer import score_corpus, score_utterance
    from omni_bench.run.config.compose import compose

    found = json.loads((out / "spoken.json").read_text(encoding="utf-8"))
    asr = compose([f"asr.model={model}"]).asr
    clips = [AsrClip(f"{index:03}", out / f"{index:03}.wav", 24_000) for index in range(len(found["texts"]))]
    heard = transcribe(clips, asr, "en")
    scores = [
        score_utterance(one.request_id, text, one.text, "en") for one, text in zip(heard, found["texts"], strict=True)
    ]
    corpus = score_corpus(model, scores)
    print(f"{found['package']} {found['version']}: WER {corpus.wer:.2%} of {len(scores)} sentences, judge {model}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    steps = parser.add_subparsers(dest="step", required=True)
    speaking = steps.add_parser("speak")
    speaking.add_argument("package", choices=PACKAGES)
    speaking.add_argument("voice", help="a folder of omni-bench voice")
    speaking.add_argument("out", type=Path)
    speaking.add_argument("--count", type=int, default=16)
    speaking.add_argument("--speaker", default="heart")
    judging = steps.add_parser("judge")
    judging.add_argument("out", type=Path)
    judging.add_argument("--model", default="base")
    options = parser.parse_args()
    if options.step == "speak":
        speak(options.package, options.voice, options.out, options.count, options.speaker)
    else:
        judge(options.out, options.model)
    return 0


if __name__ == "__main__":
    sys.exit(main())
