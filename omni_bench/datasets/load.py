"""From a dataset configuration to the ordered prompts of a run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from omni_bench.datasets.bundled import bundled_locales, bundled_names, count_rows, read_bundled
from omni_bench.datasets.huggingface import read_huggingface
from omni_bench.datasets.random_lengths import ROWS, read_random
from omni_bench.datasets.seed_tts import read_seed_tts
from omni_bench.datasets.source import PromptSource
from omni_bench.errors import DatasetError
from omni_bench.records.config import DATASET_KINDS, DatasetConfig
from omni_bench.records.prompt import Prompt


@dataclass(frozen=True)
class DatasetInfo:
    """A line of ``omni-bench list``. ``prompts`` is None where it depends on the user's data."""

    name: str
    kind: str
    locale: str | None
    prompts: int | None
    description: str


def open_source(config: DatasetConfig) -> PromptSource:
    """Read the data set that ``config`` names, its prompts in ``config.spoken``. Raises DatasetError."""
    source = _open(config)
    if config.language is None:
        return source
    return replace(source, take=lambda row: replace(source.take(row), language=config.spoken))


def _open(config: DatasetConfig) -> PromptSource:
    if config.kind == "bundled":
        return read_bundled(config.name, config.locale, design=config.design)
    if config.kind == "seed_tts":
        if not config.root:
            raise DatasetError("dataset.root is empty; give the folder that holds <locale>/meta.lst, or a list file")
        return read_seed_tts(config.root, config.locale, design=config.design)
    if config.kind == "huggingface":
        return read_huggingface(config)
    if config.kind == "random":
        return read_random(config.locale, config.seed, config.min_words, config.max_words)
    raise DatasetError(f"dataset.kind: unknown kind {config.kind!r}; valid: {', '.join(DATASET_KINDS)}")


def shuffled_order(ids: Sequence[str], seed: int) -> list[int]:
    """Row numbers in the order of the SHA-256 of ``"{seed}:{id}"``.

    The order depends on nothing but seed and ids: not on the Python version, as
    ``random.shuffle`` would, nor on the order of the rows in the file; and adding a row
    leaves the others in the same relative order.
    """
    return sorted(range(len(ids)), key=lambda i: (hashlib.sha256(f"{seed}:{ids[i]}".encode()).digest(), i))


def load_prompts(config: DatasetConfig, count: int) -> list[Prompt]:
    """The first ``count`` prompts of the data set, shuffled by ``config.seed`` if ``config.shuffle``.

    With ``config.subset`` the data set is that number of its prompts, the first in the shuffled order:
    which ones they are depends on the seed alone, and without ``config.shuffle`` they come in file
    order. With ``config.allow_repeats`` a data set that is too small starts again in the same
    order; the repeats of a prompt have the ids ``ID#2``, ``ID#3`` and so on.

    Raises DatasetError if the data set cannot be read, is malformed, or holds fewer than ``count``.
    """
    if count < 1:
        raise DatasetError(f"{count} prompts asked for; at least 1 is needed")
    source = open_source(config)
    order = _order(source, config)
    if count > len(order) and not config.allow_repeats:
        which = f"dataset.subset={config.subset} of {source.label}" if config.subset is not None else source.label
        raise DatasetError(
            f"{count} prompts are needed but {which} has {len(order)}; "
            "ask for fewer requests or set dataset.allow_repeats=true"
        )
    first_pass = [source.take(index) for index in order[:count]]
    return first_pass + _repeats(first_pass, set(source.ids), count - len(first_pass))


def _order(source: PromptSource, config: DatasetConfig) -> list[int]:
    """The row numbers to use, in the order in which they are used."""
    available = len(source.ids)
    if config.subset is None and not config.shuffle:
        return list(range(available))
    order = shuffled_order(source.ids, config.seed)
    if config.subset is not None:
        if config.subset > available:
            raise DatasetError(f"dataset.subset={config.subset}: {source.label} has only {available} prompts")
        order = order[: config.subset]
    return order if config.shuffle else sorted(order)


def _repeats(prompts: list[Prompt], used_ids: set[str], count: int) -> list[Prompt]:
    """``count`` more prompts from ``prompts`` in the same order, under ids that are not in use."""
    repeats: list[Prompt] = []
    last_number = dict.fromkeys((prompt.id for prompt in prompts), 1)
    for position in range(count):
        prompt = prompts[position % len(prompts)]
        number = last_number[prompt.id] + 1
        while f"{prompt.id}#{number}" in used_ids:
            number += 1
        last_number[prompt.id] = number
        used_ids.add(f"{prompt.id}#{number}")
        repeats.append(replace(prompt, id=f"{prompt.id}#{number}"))
    return repeats


def prompts_sha256(prompts: Iterable[Prompt], *, with_reference: bool = False) -> str:
    """SHA-256 (hex) of the ordered prompts: id, text, language and instructions, and no path of this machine.

    ``with_reference`` (for runs that send them) adds the reference text and the content of
    the recording. Raises DatasetError if a recording cannot be read.
    """
    digest = hashlib.sha256()
    for prompt in prompts:
        parts: list[str | None] = [prompt.id, prompt.text, prompt.language]
        if prompt.instructions is not None:  # a prompt without them hashes as it always did
            parts.append(f"instructions: {prompt.instructions}")
        if with_reference:
            parts += [prompt.ref_text, _file_sha256(prompt)]
        digest.update(json.dumps(parts, ensure_ascii=True).encode() + b"\n")
    return digest.hexdigest()


def _file_sha256(prompt: Prompt) -> str | None:
    if prompt.ref_audio is None:
        return None
    try:
        with prompt.ref_audio.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        message = f"prompt {prompt.id}: cannot read the recording {prompt.ref_audio}: {error.strerror or error}"
        raise DatasetError(message) from error


def list_datasets() -> list[DatasetInfo]:
    """What ``dataset.kind`` and ``dataset.name`` can be, for ``omni-bench list``."""
    bundled = [
        DatasetInfo(name, "bundled", locale, count_rows(name, locale), "ships with omni-bench")
        for name in bundled_names()
        for locale in bundled_locales(name)
    ]
    return [
        *bundled,
        DatasetInfo("(any)", "seed_tts", None, None, "a folder dataset.root in the seed-tts-eval layout"),
        DatasetInfo("(any)", "huggingface", None, None, "dataset.hf_id: a hub id, or local arrow/parquet files"),
        DatasetInfo("random", "random", "en", ROWS, "bundled words in dataset.min_words to dataset.max_words"),
    ]
