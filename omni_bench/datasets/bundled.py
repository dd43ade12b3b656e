"""The data sets that ship inside the package, in the seed-tts-eval layout."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from omni_bench.datasets.seed_tts import META_NAME, MetaRow, parse_meta, read_seed_tts
from omni_bench.datasets.source import PromptSource
from omni_bench.errors import DatasetError

DESIGN_SUFFIX = "_design"
"""Of the sets in the design variant, in which a voice is described beside each sentence."""


def bundled_root() -> Path:
    """The folder of the bundled data sets; raises DatasetError if the package is not unpacked on disk."""
    data = resources.files("omni_bench.datasets") / "data"
    if not isinstance(data, Path) or not data.is_dir():
        raise DatasetError(f"the bundled data sets are not on disk ({data}); install omni-bench from its wheel")
    return data


def bundled_names() -> list[str]:
    """Names of the bundled data sets, sorted."""
    return sorted(entry.name for entry in bundled_root().iterdir() if any(entry.glob(f"*/{META_NAME}")))


def read_bundled(name: str, locale: str, *, design: bool = False) -> PromptSource:
    """Read a bundled data set, of the design variant if ``design``.

    Raises DatasetError that lists the names if there is no such set.
    """
    if name not in bundled_names():
        raise DatasetError(f"dataset.name: no bundled data set {name!r}; valid: {', '.join(bundled_names())}")
    return read_seed_tts(bundled_root() / name, locale, design=design)


def count_rows(name: str, locale: str) -> int:
    """Rows of a bundled set's meta.lst (the recordings are not looked at)."""
    return len(_rows(name, locale))


def bundled_texts(locale: str) -> list[str]:
    """The sentences of all bundled sets in a language, each once; [] if there are none."""
    texts: list[str] = []
    for name in bundled_names():
        if locale in bundled_locales(name):
            texts += [row.text for row in _rows(name, locale)]
    return list(dict.fromkeys(texts))


def _rows(name: str, locale: str) -> list[MetaRow]:
    meta = bundled_root() / name / locale / META_NAME
    return parse_meta(meta.read_bytes(), str(meta), design=name.endswith(DESIGN_SUFFIX))


def bundled_locales(name: str) -> list[str]:
    """Locales that the bundled set ``name`` has, sorted."""
    return sorted(entry.parent.name for entry in (bundled_root() / name).glob(f"*/{META_NAME}"))
