"""Which weights faster-whisper uses."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from omni_bench.accuracy.asr.weights import resolve_faster
from omni_bench.accuracy.asr.weights.files import sha256_of_files
from omni_bench.accuracy.asr.weights.packages import InstalledWeights
from omni_bench.accuracy.asr.weights.resolve import FASTER_WHISPER, DownloadNeeded
from omni_bench.accuracy.asr.weights.resolve_faster import model_files, resolve_faster_whisper
from omni_bench.errors import AccuracyError, ConfigError


@pytest.fixture
def library(monkeypatch):
    """A stand-in for faster-whisper that knows three names and whose hub is ``hub`` (name -> folder)."""
    module = ModuleType("faster_whisper")
    module.hub, module.local = {}, {}

    def download_model(name, local_files_only):
        source = module.local if local_files_only else {**module.local, **module.hub}
        if name not in source:
            raise OSError(f"no route to the hub for {name}")
        return str(source[name])

    module.available_models = lambda: ["tiny.en", "base", "small"]
    module.download_model = download_model
    monkeypatch.setitem(sys.modules, "faster_whisper", module)
    monkeypatch.setattr(resolve_faster, "installed_version", lambda: "1.2.1")
    monkeypatch.setattr(resolve_faster, "find_installed_weights", lambda name: None)
    return module


def make_folder(path: Path, *, parts: int = 1, without: str = "") -> Path:
    path.mkdir()
    names = ["config.json", "tokenizer.json", "vocabulary.txt"]
    names += ["model.bin"] if parts == 1 else [f"model.bin.part{number + 1}" for number in range(parts)]
    for name in names:
        if name != without:
            (path / name).write_text(f"{path.name} {name}")
    return path


def test_without_the_library_the_command_that_installs_it_is_named(monkeypatch):
    monkeypatch.setattr(resolve_faster, "installed_version", lambda: None)
    with pytest.raises(AccuracyError, match=r"pip install 'omni-bench\[faster-whisper\]'"):
        resolve_faster_whisper("auto", "cpu")


def test_a_folder_is_used_as_it_is(library, tmp_path):
    folder = make_folder(tmp_path / "mine")
    spec = resolve_faster_whisper(str(folder), "cpu")
    assert (spec.name, spec.source, spec.engine) == ("faster-whisper mine", "path", FASTER_WHISPER)
    assert spec.paths == (folder / "model.bin",) and spec.sha256 == sha256_of_files(spec.paths)
    assert spec.context_s == 30.0


@pytest.mark.parametrize("missing", ["config.json", "tokenizer.json", "vocabulary.txt", "model.bin"])
def test_an_incomplete_folder_is_a_mistake_in_the_configuration(library, tmp_path, missing):
    folder = make_folder(tmp_path / "mine", without=missing)
    with pytest.raises(ConfigError, match=r"asr\.model=.*not a model of faster-whisper"):
        resolve_faster_whisper(str(folder), "cpu")
    for none in (str(tmp_path / "none"), "~nobody-of-that-name/x"):
        with pytest.raises(ConfigError, match="there is no folder"):
            resolve_faster_whisper(none, "cpu")


def test_the_packages_of_the_other_judge_serve_this_one_too(library, monkeypatch, tmp_path):
    folder = make_folder(tmp_path / "package", parts=2)
    paths = (folder / "model.bin.part1", folder / "model.bin.part2")
    installed = InstalledWeights(paths, sha256_of_files(paths), "some-package 1.0")
    monkeypatch.setattr(resolve_faster, "find_installed_weights", lambda name: installed if name == "base" else None)
    for model, language in (("base", "en"), ("auto", "de"), ("auto", "en")):
        spec = resolve_faster_whisper(model, "cpu", language, download=False)
        assert (spec.source, spec.paths, spec.origin) == ("package", paths, "some-package 1.0")
    paths[1].write_text("changed")
    with pytest.raises(AccuracyError, match=r"refused\. Reinstall some-package 1\.0"):
        resolve_faster_whisper("base", "cpu")


def test_the_hubs_cache_goes_before_a_download_which_is_announced(library, tmp_path):
    said = []
    library.hub["small"] = make_folder(tmp_path / "fresh")
    with pytest.raises(DownloadNeeded, match="faster-whisper small is not here"):
        resolve_faster_whisper("small", "cpu", download=False)
    assert resolve_faster_whisper("small", "cpu", say=said.append).source == "download"
    assert said == ["downloading faster-whisper small from its hub"]
    library.local["small"] = make_folder(tmp_path / "cached")
    assert resolve_faster_whisper("small", "cpu", say=said.append).source == "cache" and len(said) == 1


def test_no_model_at_all_names_the_ways_to_get_one(library):
    with pytest.raises(AccuracyError, match=r"no route to the hub[\s\S]*whisper-weights[\s\S]*asr=whisper"):
        resolve_faster_whisper("auto", "cpu")


def test_names_and_languages_that_cannot_be_right(library):
    with pytest.raises(ConfigError, match=r"asr\.model='basse'.*did you mean 'base'"):
        resolve_faster_whisper("basse", "cpu")
    with pytest.raises(ConfigError, match="English only"):
        resolve_faster_whisper("tiny.en", "cpu", "de")
    with pytest.raises(ConfigError, match=r"dataset\.locale='xx'"):
        resolve_faster_whisper("base", "cpu", "xx")


def test_a_folder_needs_its_small_files(tmp_path):
    files = model_files(make_folder(tmp_path / "a"))
    assert set(files) == {"config.json", "tokenizer.json", "vocabulary.txt"}
    assert model_files(make_folder(tmp_path / "b", without="vocabulary.txt")) is None
