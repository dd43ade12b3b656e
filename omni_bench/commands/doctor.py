"""``omni-bench doctor``: what this machine can run, and why not."""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import psutil

from omni_bench.datasets.load import list_datasets
from omni_bench.errors import EXIT_INFRASTRUCTURE, EXIT_OK, ConfigError, OmniBenchError
from omni_bench.load.clients.wire_forms import FORMS
from omni_bench.plugins import PluginError
from omni_bench.records.config import ClientConfig, RunConfig, TargetConfig
from omni_bench.run.config.compose import compose, group_options, scenario_folder
from omni_bench.run.provenance import cpu_model, usable_cores
from omni_bench.targets.base import NOTE, OK, PROBLEM, Finding, TargetKind, checked
from omni_bench.targets.create import TARGETS
from omni_bench.targets.launch import NamedServer
from omni_bench.targets.preflight import installed
from omni_bench.terminal import say, say_entry, say_json

MIN_PYTHON = (3, 11)
MEMORY_BYTES = 4 << 30
_COLOURS = {PROBLEM: "red", NOTE: "yellow"}


def doctor_command(overrides: Sequence[str] = (), *, as_json: bool = False) -> int:
    """Print every finding about the run that ``overrides`` configure; 0 unless it cannot run here, then 3.

    ``as_json``: {"can_run", "findings": [{"state", "what", "detail"}]}.

    Raises ConfigError for overrides that make no configuration.
    """
    what = f"omni-bench run {' '.join(overrides)}" if overrides else "The main job (omni-bench run)"
    findings = []
    for finding in examine(overrides):
        findings.append(finding)
        if not as_json:
            label = f"{finding.state:<8} {finding.what:<12} "
            say_entry(label, finding.detail, colour=_COLOURS.get(finding.state))
    problems = [finding.what for finding in findings if finding.state == PROBLEM]
    if as_json:
        say_json({"can_run": not problems, "findings": [asdict(finding) for finding in findings]})
    elif problems:
        say()
        say(f"{what} cannot run here: {', '.join(problems)}.")
    else:
        say()
        say(f"{what} can run here.")
    return EXIT_INFRASTRUCTURE if problems else EXIT_OK


def examine(overrides: Sequence[str] = ()) -> Iterator[Finding]:
    """The findings, one by one as they are made. Raises ConfigError for overrides that make no configuration."""
    yield _python()
    yield Finding(OK, "machine", f"{cpu_model() or 'unknown CPU'}, {usable_cores()} cores; {platform.platform()}")
    yield _memory()
    yield checked("scenarios", _scenarios)
    yield checked("torch", _torch)
    config = RunConfig()
    try:
        config = compose(overrides)
    except OmniBenchError as error:
        if overrides and isinstance(error, ConfigError):
            raise
        yield Finding(PROBLEM, "scenario", str(error))
        return
    yield checked("data set", lambda: _dataset(config))
    if config.asr.kind != "none":
        yield checked("judge", lambda: _judge(config))
    yield _faster_whisper()
    yield _speaker_encoder(wanted=config.checks.speaker_similarity)
    if config.client.api_key_env is not None:
        yield checked("API key", lambda: _key(config.client))
    yield checked("disk", lambda: _disk(config))
    yield from TARGETS[config.target.kind].findings(config)
    for clash in (*FORMS.clashes(), *TARGETS.clashes()):
        yield Finding(NOTE, "plug-in", str(clash))
    for name, one in (*FORMS.usable().items(), *TARGETS.usable().items()):
        if isinstance(one, PluginError):
            yield Finding(NOTE, name, str(one))
        elif isinstance(one, TargetKind) and one.server is not None and name != config.target.kind:
            yield _other_server(name, one.server)


def _python() -> Finding:
    state = OK if sys.version_info >= MIN_PYTHON else PROBLEM
    return Finding(state, "Python", f"{platform.python_version()} at {sys.executable} (3.11 or newer is needed)")


def _memory() -> Finding:
    free_bytes = psutil.virtual_memory().available
    state = OK if free_bytes >= MEMORY_BYTES else NOTE
    return Finding(state, "memory", f"{free_bytes / 2**30:.1f} GiB available; the main job takes up to 4 GiB")


def _scenarios() -> Finding:
    return Finding(OK, "scenarios", str(scenario_folder()))


def _torch() -> Finding:
    import torch

    if not torch.cuda.is_available():
        return Finding(
            OK, "torch", f"{torch.__version__}, no CUDA device: the reference server and the judge use the CPU"
        )
    names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return Finding(OK, "torch", f"{torch.__version__}, CUDA {torch.version.cuda}: {', '.join(names)}")


def _dataset(config: RunConfig) -> Finding:
    from omni_bench.datasets.load import load_prompts
    from omni_bench.load.plan import size_load
    from omni_bench.run.prepare import check_written

    needed = size_load(config.load).prompts
    prompts = load_prompts(config.dataset, needed)
    if config.asr.kind != "none":
        check_written(prompts, config.dataset)
    return Finding(OK, "data set", f"{config.dataset.name}: {needed} prompts read, as {config.scenario.name} needs")


def _judge(config: RunConfig) -> Finding:
    from omni_bench.accuracy.asr.engines import resolve_engine
    from omni_bench.accuracy.asr.weights.resolve import FASTER_WHISPER, DownloadNeeded

    try:
        spec = resolve_engine(config.asr, config.dataset.spoken, download=False)
    except DownloadNeeded as needed:
        return Finding(NOTE, "judge", str(needed))
    program = "faster-whisper" if spec.engine == FASTER_WHISPER else "Whisper"
    return Finding(OK, "judge", f"{program} {spec.name} on {spec.device}, from {spec.source}: {spec.origin}")


def _faster_whisper() -> Finding:
    from omni_bench.accuracy.asr.weights.resolve_faster import INSTALL, installed_version

    what, version = "other judge", installed_version()
    if version is None:
        return Finding(NOTE, what, f"faster-whisper is not installed (only asr=faster_whisper needs it): {INSTALL}")
    return Finding(OK, what, f"faster-whisper {version} is installed: asr=faster_whisper")


def _speaker_encoder(*, wanted: bool) -> Finding:
    from omni_bench.accuracy.voices.encoder import describe_encoder, why_no_encoder

    what, missing = "voices", why_no_encoder()
    if missing is not None:
        return Finding(PROBLEM if wanted else NOTE, what, f"checks.speaker_similarity is n/a: {missing}")
    return Finding(OK, what, f"{describe_encoder()} has the speaker encoder: checks.speaker_similarity=true")


def _key(client: ClientConfig) -> Finding:
    from omni_bench.load.runner import check_api_key

    check_api_key(client)
    return Finding(OK, "API key", f"{client.api_key_env} is set: client.api_key_env")


def _disk(config: RunConfig) -> Finding:
    from omni_bench.load.plan import size_load
    from omni_bench.run.prepare import check_disk_space, space_needed_bytes

    folder = Path(config.output.root).absolute()
    while not folder.exists():
        folder = folder.parent
    check_disk_space(folder, space_needed_bytes(size_load(config.load).measured, config.output))
    return Finding(OK, "disk", f"{shutil.disk_usage(folder).free / 2**30:.1f} GiB free at {folder}")


def _other_server(kind: str, server: NamedServer) -> Finding:
    """Whether a server that is not the configured one could be launched too."""
    (found,) = installed(TargetConfig(kind=kind, model="MODEL"), server)
    if found.state == OK:
        return Finding(
            OK, server.package, f"{found.detail}; what it needs: omni-bench doctor target={kind} client.model=MODEL"
        )
    return Finding(NOTE, server.package, f"{found.detail} (one that runs elsewhere: target=external target.url=...)")


# ``omni-bench list``: what can be chosen.

_LISTED = {
    "scenario": "Scenarios",
    "dataset": "Data sets",
    "target": "Targets",
    "client": "Wire forms",
    "asr": "Judges",
}


_FAULTS = {"reference.fault": "Faults of the bundled server", "target.chaos": "Faults of the wire before any server"}


def _faults() -> dict[str, dict[str, str]]:
    """What can be broken on purpose, by key and name, with a line about each."""
    from omni_bench.targets.chaos_proxy.catalogue import WIRE_FAULTS
    from reference_impl.faults.catalogue import FAULTS, MAX_SLOW_PERCENT

    inside = {fault.name: fault.what for fault in FAULTS.values()}
    inside["slow_N"] = f"every step takes N % longer, N from 1 to {MAX_SLOW_PERCENT}"
    return {"reference.fault": inside, "target.chaos": {fault.name: fault.what for fault in WIRE_FAULTS.values()}}


def list_command(*, as_json: bool = False) -> int:
    """Print scenarios, data sets, targets, wire forms and faults with a line about each.

    ``as_json``: {"scenario": {NAME: what it is}, ...}, the bundled sentences and the faults. Raises ConfigError,
    DatasetError.
    """
    bundled = {
        f"{info.name}/{info.locale}": f"{info.prompts} prompts" for info in list_datasets() if info.prompts is not None
    }
    groups = {name: group_options(name) for name in _LISTED}
    faults = _faults()
    if as_json:
        say_json({**groups, "bundled_sentences": bundled, **faults})
        return EXIT_OK
    for name, options in groups.items():
        _print_group(f"{_LISTED[name]} ({name}=NAME)", options)
        if name == "dataset":
            _print_group("Bundled sentences", bundled)
    for name, options in faults.items():
        _print_group(f"{_FAULTS[name]} ({name}=NAME, to try what is noticed)", options)
    say_entry("Your own: ", "omni-bench run --config-dir FOLDER scenario=NAME, with FOLDER/scenario/NAME.yaml")
    return EXIT_OK


def _print_group(title: str, options: dict[str, str]) -> None:
    width = max(map(len, options), default=0)
    say(title)
    for name, what in options.items():
        say_entry(f"  {name:<{width}}  ", what)
    say()
