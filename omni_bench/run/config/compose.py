"""Hydra's side of the configuration: where the files are, the schema they are checked against.

``register`` makes :class:`RunConfig` the root schema, so that Hydra refuses unknown keys
and wrong types while it composes; ``to_run_config`` turns the result into dataclasses and
checks the values (:mod:`omni_bench.run.config.validate`). ``compose`` does all of it without
Hydra's command line, for ``serve``, ``doctor``, ``list`` and tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_type_hints

import yaml
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from omni_bench.errors import ConfigError, StoreError, natural
from omni_bench.load.clients.wire_form import WireForm
from omni_bench.load.clients.wire_forms import FORMS
from omni_bench.plugins import PluginError, Registry
from omni_bench.records.config import REMOVED_KEYS, RunConfig
from omni_bench.records.convert import plain, structure
from omni_bench.run.config.explain import explain, unknown_key
from omni_bench.run.config.keys import help_text
from omni_bench.run.config.validate import validate
from omni_bench.run.config.words import as_meant
from omni_bench.targets.base import TargetKind
from omni_bench.targets.create import TARGETS

CONFIG_NAME = "config"
SCHEMA_NAME = "run_schema"
VERSION_BASE = "1.3"
REGISTRIES: dict[str, Registry[WireForm] | Registry[TargetKind]] = {"client": FORMS, "target": TARGETS}
"""Groups whose options are code: a module each, or brought by an installed package."""

_stored: dict[str, dict[str, dict[str, Any]]] = {}
"""The options of REGISTRIES that Hydra has: to store them takes a sixth of the time of a composition."""

GROUPS = ("scenario", "target", "dataset", "client", "load", "slo", "asr", "checks", "reference")

COMPOSITION_ERRORS = (HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError)
"""What composing a bad configuration can raise; :func:`explain` turns each into a ConfigError."""


def scenario_folder() -> Path:
    """The folder that Hydra reads: inside the package when installed, beside it in a checkout.

    Raises ConfigError if neither is there (a broken installation).
    """
    package = Path(__file__).resolve().parents[2]
    candidates = (package / "_scenarios", package.parent / "scenarios")
    for folder in candidates:
        if (folder / f"{CONFIG_NAME}.yaml").is_file():
            return folder
    raise ConfigError(f"no {CONFIG_NAME}.yaml in {candidates[0]} or {candidates[1]}: the installation is incomplete")


def utc_folder_name(_: str = "") -> str:
    """The name of a run folder: UTC to the millisecond, sortable, free of colons."""
    now = datetime.now(UTC)
    return f"{now:%Y-%m-%dT%H-%M-%S}.{now.microsecond // 1000:03d}Z"


def register() -> None:
    """Store the schema, the options of REGISTRIES, and the resolvers that ``config.yaml`` names. Idempotent."""
    store = ConfigStore.instance()
    if f"{SCHEMA_NAME}.yaml" not in store.repo:
        store.store(name=SCHEMA_NAME, node=RunConfig)
    for group, registry in REGISTRIES.items():
        options = {  # :func:`validate` refuses what cannot be used
            name: {"kind": name, **({} if isinstance(one, PluginError) else one.defaults)}
            for name, one in registry.usable().items()
        }
        if _stored.get(group) != options:
            store.repo[group] = {}  # a package that is gone since the last time is no option any more
            for name, node in options.items():
                store.store(group=group, name=name, node=node)
            _stored[group] = options
    # Cached, so that every use within one configuration is the same moment.
    OmegaConf.register_new_resolver("utc_now", utc_folder_name, use_cache=True, replace=True)
    # Hydra fills the help's text in as a template, in which a dollar sign is written twice.
    OmegaConf.register_new_resolver("keys_help", lambda *, _root_: help_text(_root_).replace("$", "$$"), replace=True)


def to_run_config(config: DictConfig) -> RunConfig:
    """The composed configuration as validated dataclasses. Raises ConfigError."""
    _refuse_added_keys(config, RunConfig, "")
    try:
        run_config = OmegaConf.to_object(config)
    except OmegaConfBaseException as error:
        raise explain(error) from None
    if not isinstance(run_config, RunConfig):
        raise ConfigError(f"the root configuration does not start from `{SCHEMA_NAME}`: keys could not be checked")
    try:  # OmegaConf lets a list stand for a number in a list
        structure(plain(run_config), RunConfig, "the configuration")
    except StoreError as error:
        raise ConfigError(str(error)) from None
    validate(run_config)
    return run_config


def from_stored(stored: Mapping[str, Any]) -> RunConfig:
    """The configuration that a run or a study keeps as plain types, without keys of older versions. Raises ConfigError.

    Past OmegaConf, which would take a ``${`` within a value for the name of another.
    """
    hints, kept = get_type_hints(RunConfig), {}
    for group, values in stored.items():
        kept[group] = {key: one for key, one in (values or {}).items() if f"{group}.{key}" not in REMOVED_KEYS}
        for key in kept[group]:
            if group not in hints or key not in get_type_hints(hints[group]):
                raise ConfigError(f"unknown key '{group}.{key}', of another version of omni-bench")
    try:
        config = structure(kept, RunConfig, "the stored configuration")
    except StoreError as error:
        raise ConfigError(str(error)) from None
    validate(config)
    return config


def _refuse_added_keys(config: DictConfig, schema: type, prefix: str) -> None:
    """``+key=value`` goes past Hydra's own check; a key outside the schema would be silently ignored."""
    hints = get_type_hints(schema)
    for key in config:
        if key not in hints:
            raise ConfigError(unknown_key(f"{prefix}{key}"))
        if is_dataclass(hints[key]) and isinstance(group := config._get_node(key), DictConfig):
            _refuse_added_keys(group, hints[key], f"{prefix}{key}.")


def compose(overrides: Sequence[str] = (), config_dir: Path | None = None) -> RunConfig:
    """Compose and validate outside Hydra's command line.

    ``config_dir`` replaces the bundled folder. Raises ConfigError with one clear message.
    """
    register()
    folder = scenario_folder() if config_dir is None else config_dir.resolve()
    previous = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(config_dir=str(folder), version_base=VERSION_BASE):
            composed = hydra_compose(config_name=CONFIG_NAME, overrides=as_meant(overrides))
            return to_run_config(composed)
    except COMPOSITION_ERRORS as error:
        raise explain(error, list(group_options("scenario"))) from None
    finally:
        GlobalHydra.instance().hydra = previous


def group_options(group: str) -> dict[str, str]:
    """The bundled options of a config group with a line about each, in a natural order; those of plug-ins come last."""
    if group in REGISTRIES:
        brought = REGISTRIES[group].entry_points
        usable = sorted(REGISTRIES[group].usable().items(), key=lambda item: (item[0] in brought, natural(item[0])))
        return {name: str(one) if isinstance(one, PluginError) else one.what for name, one in usable}
    options = {}
    for path in sorted((scenario_folder() / group).glob("*.yaml"), key=lambda path: natural(path.stem)):
        options[path.stem] = _describe(path)
    return options


def _describe(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    scenario = (yaml.safe_load(text) or {}).get("scenario")
    if isinstance(scenario, dict) and scenario.get("description"):
        return str(scenario["description"])
    comments = (line.lstrip("# ").strip() for line in text.splitlines() if line.startswith("#"))
    return next((comment for comment in comments if not comment.startswith("@package")), "")
