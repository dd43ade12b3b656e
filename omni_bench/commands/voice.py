"""``omni-bench voice FOLDER``: the small voice as a checkpoint folder that any Qwen3-TTS server loads."""

from __future__ import annotations

import shutil
from pathlib import Path

from omni_bench.errors import EXIT_OK, ConfigError
from omni_bench.terminal import say, say_json
from reference_impl.settings import BUNDLED


def voice_command(folder: str, *, as_json: bool = False) -> int:
    """Write the voice into a new or empty folder.

    Raises ConfigError if the folder holds something already or cannot be written.
    """
    target = Path(folder)
    try:
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise ConfigError(f"{folder}: is there already and not an empty folder; name a new one")
        for source in (path for path in BUNDLED["tiny"].rglob("*") if path.is_file()):
            copy = target / source.relative_to(BUNDLED["tiny"])
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written: {error.strerror}; name another folder") from None
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    if as_json:
        say_json({"folder": str(target.absolute()), "bytes": size, "voices": ["heart", "heart_low"]})
        return EXIT_OK
    say(f"{folder}: a Qwen3-TTS CustomVoice checkpoint of {size / 1e6:.0f} MB, voices heart and heart_low")
    say(f"try it: omni-bench run scenario=smoke reference.checkpoint={folder}")
    return EXIT_OK
