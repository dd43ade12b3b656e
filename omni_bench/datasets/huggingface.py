"""Reads prompts through the ``datasets`` library: a hub id, or local arrow/parquet.

``dataset.hf_id`` may be a hub id, an ``.arrow`` or ``.parquet`` file, a folder of such files,
or a folder written by ``Dataset.save_to_disk``. No code of a data set is ever run: local
folders are only opened as arrow or parquet, and ``trust_remote_code`` is off.
"""

from __future__ import annotations

import hashlib
import inspect
import io
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omni_bench.datasets.source import SHOWN_CHARS, PromptSource, RowProblems, bad_text, id_key, resolve_inside
from omni_bench.errors import DatasetError, shorten
from omni_bench.records.config import DatasetConfig
from omni_bench.records.files import cache_folder, write_atomically
from omni_bench.records.prompt import Prompt

if TYPE_CHECKING:
    from datasets import Dataset

COLUMN_KEYS = ("id", "text", "ref_text", "ref_audio")
DATA_SUFFIXES = {".parquet": "parquet", ".arrow": "arrow"}
MAX_AUDIO_BYTES = 64 * 1024 * 1024
_SPLIT = re.compile(r"\w+(\.\w+)*")
_SPLIT_NAMES = ("train", "test", "validation", "valid", "dev", "eval")


def read_huggingface(config: DatasetConfig) -> PromptSource:
    """Open the data set that ``config.hf_id`` and ``config.hf_split`` name and check its rows.

    ``config.hf_columns`` maps id, text, ref_text and ref_audio to columns. ``id`` and ``text``
    are needed; an empty name for ``id`` numbers the rows instead, an empty name for another leaves
    it out. ref_text and ref_audio may be absent from the table as long as their mapping is the
    default one. Recordings stored inside the table are written to ``$XDG_CACHE_HOME/omni-bench/ref_audio``,
    named by their SHA-256, when a prompt is taken.

    Raises DatasetError: unknown or unreachable id, missing split or column, bad rows; StoreError for a recording
    that cannot be written.
    """
    if not config.hf_id:
        raise DatasetError("dataset.hf_id is empty; give a hub id, or an arrow/parquet file or folder")
    table, bases = _open(config.hf_id, config.hf_split)
    label = f"{config.hf_id} (split {config.hf_split})"
    columns = _columns(dict(config.hf_columns), table.column_names, label)
    ids, texts, ref_texts = _checked_rows(table, columns, label)
    audio = _audio_column(table, columns["ref_audio"])

    def take(index: int) -> Prompt:
        recording = None
        if audio is not None:
            cache = cache_folder() / "ref_audio"
            recording = _recording(audio[index][columns["ref_audio"]], bases, cache, f"{label}, row {index}")
        return Prompt(ids[index], texts[index], ref_texts[index], recording, config.locale)

    return PromptSource(label, tuple(ids), take)


def _open(hf_id: str, split: str) -> tuple[Dataset, tuple[Path, ...]]:
    """The table, and the folders inside which recordings that it names by path may lie."""
    path = Path(os.path.expanduser(hf_id))
    is_local = os.path.exists(path)  # unlike Path.exists, False for a name that no file can have
    try:
        if is_local:
            base = path if path.is_dir() else path.parent
            return _open_local(path, split), (base,)
        if path.suffix in DATA_SUFFIXES or hf_id.startswith((".", "/", "~")):
            raise DatasetError(f"dataset.hf_id: no file or folder {str(path)!r}")
        return _open_hub(hf_id, split), _hub_caches()
    except DatasetError:
        raise
    # The library and those beneath it (hub, HTTP, file systems, arrow) raise errors of many
    # unrelated classes here; each of them means the same to the user.
    except Exception as error:
        where = "local data" if is_local else "a data set of the Hugging Face hub (no such local path exists)"
        raise DatasetError(
            f"dataset.hf_id {hf_id!r}, split {split!r}: cannot be opened as {where}: {_reason(error)}"
        ) from error


def _reason(error: BaseException) -> str:
    """The error and, because wrappers often say only that there was one, its first cause."""
    first = error
    while first.__cause__ is not None:
        first = first.__cause__
    shown = [
        f"{type(one).__name__}: {shorten(' '.join(str(one).split()), 300)}" for one in dict.fromkeys((error, first))
    ]
    return "; cause: ".join(shown)


def _open_local(path: Path, split: str) -> Dataset:
    from datasets import DatasetDict, load_dataset, load_from_disk

    if not _SPLIT.fullmatch(split):
        raise DatasetError(f"dataset.hf_split {split!r}: local data take the name of a split, not a slice of one")
    if path.is_dir() and ((path / "dataset_dict.json").is_file() or (path / "state.json").is_file()):
        loaded = load_from_disk(str(path))
        if not isinstance(loaded, DatasetDict):
            return loaded
        if split not in loaded:
            raise DatasetError(f"dataset.hf_split: no split {split!r} in {path}; valid: {', '.join(sorted(loaded))}")
        return loaded[split]
    files = _data_files(path, split)
    # Every local file is loaded as one split; which files belong to the wanted one was settled by name.
    return load_dataset(DATA_SUFFIXES[files[0].suffix], data_files=[str(file) for file in files], split="train")


def _data_files(path: Path, split: str) -> list[Path]:
    """The arrow or parquet files of ``split``: those named for it, or all if none is named for a split."""
    if path.is_file():
        if path.suffix not in DATA_SUFFIXES:
            raise DatasetError(f"dataset.hf_id: {path} is not one of {', '.join(DATA_SUFFIXES)}")
        return [path]
    files: list[Path] = []
    for suffix in DATA_SUFFIXES:
        files = sorted(file for file in path.rglob(f"*{suffix}") if file.is_file())
        if files:
            break
    if not files:
        raise DatasetError(f"dataset.hf_id: no {' or '.join(DATA_SUFFIXES)} file in {path}")
    by_split: dict[str, list[Path]] = {}
    for file in files:
        name = next((name for name in (split, *_SPLIT_NAMES) if _is_named_for(file.relative_to(path), name)), None)
        if name is not None:
            by_split.setdefault(name, []).append(file)
    if split in by_split:
        return by_split[split]
    if by_split:
        raise DatasetError(f"dataset.hf_split: no split {split!r} in {path}; valid: {', '.join(sorted(by_split))}")
    return files


def _is_named_for(file: Path, split: str) -> bool:
    """True for split.parquet, split-00000-of-00001.parquet, split_x.parquet and split/x.parquet."""
    return file.parent.name == split or re.match(rf"{re.escape(split)}[-_.]", file.name) is not None


def _open_hub(hf_id: str, split: str) -> Dataset:
    from datasets import load_dataset

    # From version 4 on the library cannot run a data set's own code, and the argument is gone.
    has_switch = "trust_remote_code" in inspect.signature(load_dataset).parameters
    return load_dataset(hf_id, split=split, **({"trust_remote_code": False} if has_switch else {}))


def _hub_caches() -> tuple[Path, ...]:
    from datasets import config as datasets_config
    from huggingface_hub import constants

    return Path(datasets_config.HF_DATASETS_CACHE), Path(constants.HF_HUB_CACHE)


def _columns(mapping: dict[str, str | None], available: list[str], label: str) -> dict[str, str | None]:
    """The column of each key, None where it is not used. Raises DatasetError for what is not there."""
    default = DatasetConfig().hf_columns
    unknown = sorted(set(mapping) - set(COLUMN_KEYS))
    if unknown:
        raise DatasetError(f"dataset.hf_columns: unknown key(s) {', '.join(unknown)}; valid: {', '.join(COLUMN_KEYS)}")
    columns: dict[str, str | None] = {}
    for key in COLUMN_KEYS:
        name = mapping.get(key, default[key])
        if not name and key == "text":
            raise DatasetError(f"dataset.hf_columns.text is empty; columns of {label}: {', '.join(available)}")
        optional = key in ("ref_text", "ref_audio") and name == default[key]
        if name and name not in available:
            if not optional:
                raise DatasetError(
                    f"dataset.hf_columns.{key}: no column {name!r} in {label}; available: {', '.join(available)}"
                )
            name = None
        columns[key] = name or None
    return columns


def _checked_rows(
    table: Dataset, columns: Mapping[str, str | None], label: str
) -> tuple[list[str], list[str], list[str | None]]:
    """Ids, texts and reference texts of all rows, stripped. Raises DatasetError that lists bad rows."""
    if len(table) == 0:
        raise DatasetError(f"{label} has no rows")
    texts = _column(table, columns["text"])
    raw_ids = _column(table, columns["id"]) if columns["id"] else [f"row_{i:06d}" for i in range(len(texts))]
    raw_refs = _column(table, columns["ref_text"]) if columns["ref_text"] else [None] * len(texts)
    ids: list[str] = []
    problems = RowProblems(label)
    row_of_id: dict[str, int] = {}
    for row, (raw_id, text, ref_text) in enumerate(zip(raw_ids, texts, raw_refs, strict=True)):
        is_number = isinstance(raw_id, int) and not isinstance(raw_id, bool)
        row_id = str(raw_id) if is_number else raw_id
        problem = bad_text(row_id, "id") or bad_text(text, "text")
        is_blank = ref_text is None or (isinstance(ref_text, str) and not ref_text.strip())
        if problem is None and not is_blank:
            problem = bad_text(ref_text, "ref_text")
        if problem is None and id_key(row_id.strip()) in row_of_id:
            problem = f"id {shorten(row_id, SHOWN_CHARS)!r} is already used in row {row_of_id[id_key(row_id.strip())]}"
        if problem is not None:
            problems.add(f"row {row}", problem)
            continue
        ids.append(row_id.strip())
        row_of_id[id_key(row_id.strip())] = row
    problems.raise_if_any()
    return ids, [text.strip() for text in texts], [(ref or "").strip() or None for ref in raw_refs]


def _column(table: Dataset, name: str) -> list[Any]:
    """All values of one column, without touching (or decoding) the others."""
    return list(table.select_columns([name])[name])


def _audio_column(table: Dataset, name: str | None) -> Dataset | None:
    """The table reduced to its recordings, undecoded: rows hold {"bytes", "path"} or a path."""
    if name is None:
        return None
    from datasets import Audio

    only = table.select_columns([name])
    return only.cast_column(name, Audio(decode=False)) if isinstance(only.features[name], Audio) else only


def _recording(value: object, bases: tuple[Path, ...], cache: Path, where: str) -> Path | None:
    """The file of a recording: the one it names, or the cached copy of the bytes it holds."""
    if isinstance(value, Mapping):
        data, path = value.get("bytes"), value.get("path")
    else:
        data, path = None, value
    if data is not None:
        if not isinstance(data, bytes):
            raise DatasetError(f"{where}: the recording's bytes are {type(data).__name__}")
        return _cached(data, cache, where)
    if path in (None, ""):
        return None
    if not isinstance(path, str):
        raise DatasetError(f"{where}: the recording is {type(path).__name__}; needs audio or the path of a file")
    reasons = []
    for base in bases:
        try:
            return resolve_inside(base, path)
        except ValueError as error:
            reasons.append(str(error))
    raise DatasetError(f"{where}: recording: {'; '.join(reasons)}")


def _cached(data: bytes, cache: Path, where: str) -> Path:
    """Write ``data`` under its SHA-256 unless it is there already. Raises DatasetError if it is not audio."""
    import soundfile

    if len(data) > MAX_AUDIO_BYTES:
        raise DatasetError(f"{where}: the recording is larger than {MAX_AUDIO_BYTES // 2**20} MiB")
    try:
        suffix = soundfile.info(io.BytesIO(data)).format.lower()
        suffix = "wav" if suffix in ("wavex", "rf64") else suffix
    except soundfile.LibsndfileError as error:
        raise DatasetError(f"{where}: the recording is not audio that libsndfile reads: {error}") from error
    path = cache / f"{hashlib.sha256(data).hexdigest()}.{suffix}"
    if path.is_file() and path.stat().st_size == len(data):
        return path
    write_atomically(path, lambda temporary: temporary.write_bytes(data))
    return path
