"""Is a model here, as a folder or in the local cache of the Hugging Face hub? Nothing is ever downloaded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

CONFIG_FILE = "config.json"
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+|[A-Za-z0-9][\w.-]*")


def model_problem(model: str, env: Mapping[str, str]) -> str | None:
    """Why a server with the environment ``env`` cannot load ``model`` from this machine, None if it can.

    A model is a folder with a config.json, or a hub id with a snapshot in the cache that holds one. Whether all the
    weights are there too only the server knows.
    """
    folder = Path(model).expanduser()
    if folder.is_dir():
        return None if (folder / CONFIG_FILE).is_file() else f"the folder has no {CONFIG_FILE}, so that it is no model"
    if model.startswith((".", "/", "~")) or not _HUB_ID.fullmatch(model):
        return "there is no such folder"
    cache = hub_cache(env)
    snapshots = cache / f"models--{model.replace('/', '--')}" / "snapshots"
    if any(snapshots.glob(f"*/{CONFIG_FILE}")):
        return None
    return (
        f"neither a folder nor in the local cache of the hub ({cache}); omni-bench downloads no models: fetch it first "
        f"(hf download {model}), or give the folder it is in"
    )


def hub_cache(env: Mapping[str, str]) -> Path:
    """Where huggingface_hub keeps its files, by the variables that it documents."""
    home = Path(env.get("HOME") or Path.home())
    candidates = (env.get("HF_HUB_CACHE"), env.get("HUGGINGFACE_HUB_CACHE"))
    if (given := next(filter(None, candidates), None)) is not None:
        return Path(given).expanduser()
    if env.get("HF_HOME"):
        return Path(env["HF_HOME"]).expanduser() / "hub"
    return Path(env.get("XDG_CACHE_HOME") or home / ".cache") / "huggingface" / "hub"
