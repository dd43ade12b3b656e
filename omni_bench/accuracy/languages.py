"""Language names of data sets, as Whisper's two- or three-letter codes."""

from __future__ import annotations

from omni_bench.errors import AccuracyError


def is_english(name: str) -> bool:
    """True for "en", "en-GB", "en_US" and "English"."""
    return _base(name) in ("en", "english")


def whisper_language(name: str) -> str:
    """Whisper's code for "en", "en-US", "zh_CN" or "Chinese". Raises AccuracyError for an unknown name."""
    if is_english(name):
        return "en"  # without the import
    from whisper.tokenizer import LANGUAGES, TO_LANGUAGE_CODE  # imports torch

    for candidate in (TO_LANGUAGE_CODE.get(name.strip().lower()), _base(name)):
        if candidate in LANGUAGES:
            return candidate
    raise AccuracyError(f"Whisper does not know the language {name!r}; valid are {', '.join(sorted(LANGUAGES))}")


def _base(name: str) -> str:
    return name.strip().lower().replace("_", "-").split("-")[0]
