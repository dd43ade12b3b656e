"""Everything that can be known to fail before a server is launched, checked in seconds."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omni_bench.accuracy.asr.weights.resolve import JudgeSpec, check_language
from omni_bench.accuracy.judge_error import References
from omni_bench.accuracy.languages import check_scripts
from omni_bench.accuracy.recordings import no_speech
from omni_bench.datasets.load import load_prompts, prompts_sha256
from omni_bench.datasets.source import RowProblems
from omni_bench.errors import AccuracyError, ConfigError, StoreError
from omni_bench.load.files import allow_files, connections_of
from omni_bench.load.open_plan import OpenPlanner
from omni_bench.load.plan import plan_levels, size_load
from omni_bench.load.ray_cluster import find_nodes
from omni_bench.load.runner import check_api_key
from omni_bench.records.config import RATE_SEARCH, RAY, DatasetConfig, OutputConfig, RunConfig
from omni_bench.records.files import os_errors_as_store_errors
from omni_bench.records.plan import LevelPlan
from omni_bench.records.prompt import Prompt
from omni_bench.run.judging import check_speaker_encoder, find_judge, references_for
from omni_bench.run.parity import REPEATS
from omni_bench.targets.create import TARGETS

SPACE_FIXED_BYTES = 64 << 20
SPACE_PER_REQUEST_BYTES = 3 << 19
"""Half a minute of 24 kHz 16-bit audio, as received; as much again where it is kept as WAV."""


@dataclass(frozen=True)
class Prepared:
    """What a run needs and cannot change while it goes on.

    ``planner`` makes the levels of a rate search, which has no ``plans`` beforehand.
    """

    prompts: dict[str, Prompt]
    prompts_facts: dict[str, Any]
    plans: list[LevelPlan]
    judge: JudgeSpec | None
    references: References = field(default_factory=References)
    planner: OpenPlanner | None = None


def prepare(config: RunConfig, run_dir: Path, say: Callable[[str], None], *, sends: bool = True) -> Prepared:
    """Check the target, load the prompts, plan the levels, find the judge, check the disk.

    ``say`` shows what takes long. ``sends``: whether it is known that anything is to be sent; else
    :func:`check_target` and :func:`check_room` are left to the caller. Raises TargetError, DatasetError, ConfigError,
    AccuracyError or StoreError.
    """
    if sends:
        check_target(config, say)
    check_speaker_encoder(config.checks)
    size = size_load(config.load)
    prompts = load_prompts(config.dataset, size.prompts)
    if config.asr.kind != "none":
        check_written(prompts, config.dataset)
    if config.client.send_reference:
        check_recordings(prompts, config.dataset.name)
    planner = None
    if config.load.kind == RATE_SEARCH:
        planner = OpenPlanner(prompts, size.measured, config.load, config.client, cycle=True)
    plans = plan_levels(prompts, size, config.load, config.client) if planner is None else []
    if sends:
        check_room(config, plans, size.measured, run_dir)
    return Prepared(
        prompts={prompt.id: prompt for prompt in prompts},
        prompts_facts={
            "dataset": config.dataset.name,
            "locale": config.dataset.spoken,
            "count": len(prompts),
            "measured": size.measured,
            "warmup": len(prompts) - size.measured,
            "sha256": prompts_sha256(prompts, with_reference=config.client.send_reference),
        },
        plans=plans,
        judge=find_judge(config.asr, config.dataset.spoken, say),
        references=references_for(config.asr, prompts),
        planner=planner,
    )


def check_target(config: RunConfig, say: Callable[[str], None]) -> None:
    """Check what can be known of the target, and of the machines that send. Raises TargetError, ConfigError."""
    TARGETS[config.target.kind].check(config)
    check_api_key(config.client)
    if config.load.engine == RAY:
        nodes = find_nodes(config.load.ray_address, config.load.workers)
        apart_ms = max(node.error_ms for node in nodes)
        say(f"load: {len(nodes)} node{'s' * (len(nodes) != 1)} of Ray, clocks known within {apart_ms:.2f} ms")


def check_room(config: RunConfig, plans: Sequence[LevelPlan], measured: int, run_dir: Path) -> None:
    """Make and check room for connections, and for ``measured`` answers on the disk. Raises ConfigError, StoreError."""
    allow_files(max(map(connections_of, plans), default=config.load.max_in_flight))
    levels = len(plans) or config.load.max_probes
    alone = config.checks.parity_requests * levels + REPEATS if config.checks.parity_requests else 0
    check_disk_space(run_dir, space_needed_bytes(measured + alone, config.output))


def check_written(prompts: Sequence[Prompt], dataset: DatasetConfig) -> None:
    """Raise ConfigError for a language that the judge does not know, or that the prompts are not in."""
    check_language(dataset.spoken, dataset.spoken_key)
    try:
        check_scripts([prompt.text for prompt in prompts], dataset.spoken)
    except AccuracyError as error:
        raise ConfigError(
            f"{dataset.spoken_key}={dataset.spoken!r}: {error}; give the language that they are in (dataset.language, "
            "dataset.locale), or asr=none to run without a judge"
        ) from None


def check_recordings(prompts: Sequence[Prompt], name: str) -> None:
    """Raise DatasetError that lists the recordings which are no speech of their texts: no server can clone those.

    What libsndfile cannot read is left to the server.
    """
    recordings = {
        prompt.ref_audio: (prompt.ref_text, prompt.language) for prompt in prompts if prompt.ref_audio is not None
    }
    problems = RowProblems(f"client.send_reference=true: the data set {name}")
    for path, said in recordings.items():
        if (problem := no_speech(path, *said)) is not None:
            problems.add(path.name, problem)
    problems.raise_if_any()


def space_needed_bytes(requests: int, output: OutputConfig) -> int:
    """Disk space that a run of that many requests, warm-up aside, may take."""
    copies = 1 if output.save_audio == "none" else 2
    return SPACE_FIXED_BYTES + copies * requests * SPACE_PER_REQUEST_BYTES


def check_disk_space(folder: Path, needed_bytes: int) -> None:
    """Raise StoreError unless the disk of ``folder`` has ``needed_bytes`` free."""
    with os_errors_as_store_errors("look at the disk of", folder):
        free_bytes = shutil.disk_usage(folder).free
    if free_bytes < needed_bytes:
        raise StoreError(
            f"the disk of {folder} has {free_bytes >> 20} MiB free, the run may need {needed_bytes >> 20} MiB; "
            "free some space or set output.root to another disk"
        )
