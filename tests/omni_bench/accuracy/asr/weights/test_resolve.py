"""Which weights are used: a path, the cache, a package, or a download."""

import hashlib
import json
from importlib import metadata

import pytest
import torch
import whisper

from omni_bench.accuracy.asr.weights import resolve
from omni_bench.accuracy.asr.weights.packages import InstalledWeights
from omni_bench.accuracy.written.normalise import NORMALISER
from omni_bench.errors import AccuracyError, ConfigError


def sha256_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class World:
    """A user's cache, installed packages and a network, all of them made here."""

    def __init__(self, root, monkeypatch):
        self.cache = root / "home" / "whisper"
        self.cache.mkdir(parents=True)
        self.root = root
        self.downloads = []
        self.online = set()
        self._installed = {}
        urls = {name: f"https://models.invalid/{sha256_of(name.encode())}/{name}.pt" for name in whisper._MODELS}
        urls["turbo"] = urls["large-v3-turbo"]
        monkeypatch.setattr(whisper, "_MODELS", urls)
        monkeypatch.setenv("XDG_CACHE_HOME", str(root / "home"))
        monkeypatch.setattr(resolve, "find_installed_weights", self._installed.get)
        monkeypatch.setattr(resolve, "download_weights", self._download)

    def cached(self, name):
        (self.cache / f"{name}.pt").write_bytes(name.encode())

    def packaged(self, name, sha256=None):
        path = self.root / f"{name}.bin"
        path.write_bytes(name.encode())
        sha256 = sha256 or sha256_of(name.encode())
        self._installed[name] = InstalledWeights((path,), sha256, f"package-of-{name} 1.0")

    def _download(self, url, sha256, target):
        self.downloads.append(target.stem)
        if target.stem not in self.online:
            raise AccuracyError("no route to host")
        target.write_bytes(target.stem.encode())


@pytest.fixture
def world(tmp_path, monkeypatch):
    return World(tmp_path, monkeypatch)


@pytest.fixture
def cuda(monkeypatch):
    monkeypatch.setattr(resolve, "may_have_gpu", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


def found(model, device="cpu", language="en"):
    spec = resolve.resolve_judge(model, device, language)
    return spec.source, spec.name


def test_auto_on_cpu_takes_the_cache_then_the_package_then_larger_ones_then_a_download(world):
    world.online.add("tiny.en")
    assert found("auto") == ("download", "tiny.en")
    (world.cache / "tiny.en.pt").unlink()
    world.packaged("base")
    assert found("auto") == ("package", "base")
    world.cached("base.en")
    assert found("auto") == ("cache", "base.en")
    world.packaged("tiny.en")
    assert found("auto") == ("package", "tiny.en")
    world.cached("tiny.en")
    assert found("auto") == ("cache", "tiny.en")
    assert world.downloads == ["tiny.en"]


def test_auto_on_cuda_takes_the_largest_at_hand(world, cuda):
    world.cached("tiny.en")
    assert found("auto", "cuda") == ("cache", "tiny.en")
    world.packaged("base")
    assert found("auto", "cuda:1") == ("package", "base")
    world.cached("small.en")
    assert found("auto", "auto") == ("cache", "small.en")
    world.cached("large-v3-turbo")
    assert found("auto", "auto") == ("cache", "large-v3-turbo")
    assert resolve.resolve_judge("auto", "auto").device == "cuda"


def test_auto_for_another_language_never_takes_an_english_model(world):
    world.cached("tiny.en")
    world.packaged("tiny.en")
    world.packaged("base")
    assert found("auto", language="zh") == ("package", "base")


def test_a_name_is_looked_for_everywhere_and_aliases_are_resolved(world):
    world.online.add("large-v3-turbo")
    assert found("turbo") == ("download", "large-v3-turbo")
    assert found("turbo") == ("cache", "large-v3-turbo")
    world.packaged("base")
    assert found("base") == ("package", "base")


def test_tiny_en_alone_gets_the_short_context(world, tmp_path):
    world.cached("tiny.en")
    world.cached("base.en")
    (tmp_path / "tiny.en.pt").write_bytes(b"PK\x03\x04of my own")
    assert resolve.resolve_judge("tiny.en", "cpu").context_s == 15.0
    assert resolve.resolve_judge("base.en", "cpu").context_s == 30.0
    own = resolve.resolve_judge(str(tmp_path / "tiny.en.pt"), "cpu")
    assert (own.source, own.context_s, own.sha256) == ("path", 30.0, sha256_of(b"PK\x03\x04of my own"))


def test_a_damaged_cache_is_refused_rather_than_passed_over(world):
    (world.cache / "tiny.en.pt").write_bytes(b"half a file")
    world.packaged("tiny.en")
    with pytest.raises(AccuracyError) as caught:
        resolve.resolve_judge("auto", "cpu")
    for part in (str(world.cache / "tiny.en.pt"), sha256_of(b"half a file"), sha256_of(b"tiny.en"), "delete it"):
        assert part in str(caught.value)


def test_a_package_of_another_hash_is_refused(world):
    world.packaged("tiny.en", sha256="f" * 64)
    with pytest.raises(AccuracyError, match=rf"{sha256_of(b'tiny.en')}, expected f{{64}}.*package-of-tiny\.en"):
        resolve.resolve_judge("tiny.en", "cpu")


def test_no_judge_lists_the_ways_to_get_one(world):
    with pytest.raises(AccuracyError) as caught:
        resolve.resolve_judge("auto", "cpu")
    for part in ("omni-bench[whisper-weights]", str(world.cache), "asr.model=PATH", "asr=none", "no route to host"):
        assert part in str(caught.value)
    assert world.downloads == ["tiny.en"]
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("tiny.fr", r"'tiny\.fr' is unknown; valid are auto, the path of a \.pt file, and base, base\.en"),
        ("models/whisper.bin", r"does not end with \.pt"),
        ("nowhere.pt", r"there is no file .*nowhere\.pt"),
        ("~nobody-of-that-name/x.pt", r"there is no file .*~nobody-of-that-name/x\.pt"),
    ],
)
def test_values_that_cannot_be_right_are_configuration_errors(world, model, message):
    with pytest.raises(ConfigError, match=message):
        resolve.resolve_judge(model, "cpu")


def test_an_english_model_for_another_language_is_a_configuration_error(world):
    world.cached("tiny.en")
    with pytest.raises(ConfigError, match=r"asr\.model=tiny\.en understands English only.*'zh-CN'"):
        resolve.resolve_judge("tiny.en", "cpu", "zh-CN")


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:x", "cpu:0", ""])
def test_an_unknown_device_is_a_configuration_error(device):
    with pytest.raises(ConfigError, match="valid are auto, cpu, cuda and cuda:N"):
        resolve.resolve_device(device)


def test_a_cuda_device_beyond_the_last_is_refused(cuda):
    assert resolve.resolve_device("cuda:1") == "cuda:1"
    with pytest.raises(AccuracyError, match=r"asr\.device=cuda:2 is not there: torch finds 2"):
        resolve.resolve_device("cuda:2")


@pytest.mark.parametrize("maybe", [True, False])
def test_no_cuda_means_cpu(monkeypatch, maybe):
    monkeypatch.setattr(resolve, "may_have_gpu", lambda: maybe)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert resolve.resolve_device("auto") == "cpu"
    with pytest.raises(AccuracyError, match="torch finds 0"):
        resolve.resolve_device("cuda")


def test_the_cache_is_in_the_home_folder_by_default(monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve.whisper_cache() == tmp_path / ".cache" / "whisper"


def test_provenance_is_json_with_the_hash_of_the_weights(world):
    world.packaged("tiny.en")
    described = json.loads(json.dumps(resolve.describe_judge(resolve.resolve_judge("auto", "cpu"))))
    assert described == {
        "name": "tiny.en",
        "source": "package",
        "origin": "package-of-tiny.en 1.0",
        "sha256": sha256_of(b"tiny.en"),
        "device": "cpu",
        "dtype": "float32",
        "context_s": 15.0,
        "engine": "whisper",
        "normaliser": NORMALISER,
        "openai_whisper": metadata.version("openai-whisper"),
        "torch": metadata.version("torch"),
    }


def test_a_download_is_announced_and_nothing_else_is(world):
    said = []
    world.packaged("base")
    resolve.resolve_judge("base", "cpu", say=said.append)
    assert said == []
    world.online.add("tiny.en")
    world.downloads = said  # one list, so that the order shows
    resolve.resolve_judge("tiny.en", "cpu", say=said.append)
    url = f"https://models.invalid/{sha256_of(b'tiny.en')}/tiny.en.pt"
    assert said == [f"downloading Whisper tiny.en from {url} to {world.cache / 'tiny.en.pt'}", "tiny.en"]


def test_without_download_nothing_is_fetched(world):
    world.online.add("tiny.en")
    with pytest.raises(resolve.DownloadNeeded, match=r"tiny\.en is not here; a run downloads it.*whisper-weights"):
        resolve.resolve_judge("auto", "cpu", download=False)
    assert world.downloads == []
    world.packaged("tiny.en")
    assert resolve.resolve_judge("auto", "cpu", download=False).source == "package"


@pytest.mark.parametrize("model", ["auto", "base", "own.pt"])
def test_a_language_that_whisper_lacks_is_a_configuration_error(world, tmp_path, monkeypatch, model):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.pt").write_bytes(b"of my own")
    world.packaged("base")
    with pytest.raises(
        ConfigError, match=r"dataset\.locale='tlh': Whisper does not know the language 'tlh'; valid are"
    ):
        resolve.resolve_judge(model, "cpu", "tlh")


def test_a_user_without_a_home_has_a_cache_all_the_same(monkeypatch, tmp_path):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(resolve.Path, "home", homeless)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert resolve.whisper_cache().is_relative_to(tmp_path)


def test_a_file_that_is_no_checkpoint_is_noticed_at_once(tmp_path):
    (tmp_path / "junk.pt").write_bytes(b"junk, not weights")
    with pytest.raises(ConfigError, match=r"junk\.pt: not a PyTorch checkpoint \(it begins with b'junk'\)"):
        resolve.resolve_judge(str(tmp_path / "junk.pt"), "cpu")
