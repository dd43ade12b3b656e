"""``omni-bench roofline``: the floor of the loaded configuration on this device, and how near a run came to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from omni_bench.commands.serve import reference_settings
from omni_bench.commands.stored_runs import named_run
from omni_bench.errors import EXIT_OK, ConfigError
from omni_bench.records.files import write_json
from omni_bench.records.run_folder import RunFolder
from omni_bench.report.format import UNKNOWN_CPU, cpu_name, hardware_name
from omni_bench.report.roofline import Measured, note_of, of_run, roofline, table_of
from omni_bench.run.provenance import cpu_model, usable_cores
from omni_bench.terminal import say, say_aside, say_json, say_page, say_text

if TYPE_CHECKING:
    import torch

DEFAULT_CONCURRENCY = (1, 4, 8, 16, 32)
JSON_NAME = "roofline.json"
ON_THAT_MACHINE = "run omni-bench roofline on that machine"

MEASURED_ROUNDS = 2
BUSY_SHARE = 0.1
"""A device of which others use so much is no longer measured alone; less is what any machine does on the side."""


def roofline_command(
    run: str | None,
    overrides: Sequence[str],
    concurrency: Sequence[int] | None,
    context: int,
    chunk_frames: int | None,
    measured_frames: int | None = None,
    *,
    as_json: bool = False,
) -> int:
    """Measure this device, print floors and, with a run folder, the run's share of them (kept as roofline.json).

    The configuration is the run's own, or ``reference.KEY=VALUE``; ``chunk_frames`` None: its own. With
    ``measured_frames`` the engine of that configuration speaks at each concurrency, in this process and without
    HTTP, in utterances of at most that many frames. ``as_json``: print roofline.json. An extra line says if other
    processes used the device.
    Raises ConfigError, also for a run of other hardware than this device, CheckpointError, StoreError, EngineError.
    """
    import torch

    from omni_bench.run.rejudge import stored_config
    from reference_impl.loading.from_settings import checkpoint_folder, default_threads, resolve_device, resolve_dtype
    from reference_impl.loading.released_config import read_config
    from reference_impl.model.presets import PRESETS
    from reference_impl.roofline.device_limits import busy_share, measure_limits

    document: Mapping[str, Any] | None = None
    folder: RunFolder | None = None
    if run is not None:
        if overrides:
            raise ConfigError(f"{overrides[0]!r}: the configuration is that of the run; leave one of them out")
        if measured_frames is not None:
            raise ConfigError(f"--measure: {run} is a measurement already; leave one of them out")
        folder = named_run(run)
        document = folder.read_run()
        config = stored_config(document, folder)
        if config.target.kind != "reference":
            raise ConfigError(
                f"{folder.path}: the target is {config.target.kind!r}, whose shapes are unknown; name them: "
                "omni-bench roofline reference.preset=qwen3_tts_1_7b reference.checkpoint=random"
            )
        settings = config.reference
    else:
        settings = reference_settings(overrides, "roofline")
    try:
        device = resolve_device(settings.device)
    except ConfigError as error:
        if document is None:
            raise
        raise ConfigError(f"{error}; {run} was measured on {hardware_name(document)}: {ON_THAT_MACHINE}") from None
    doubt = None if document is None else _check_hardware(run, document, device)
    model = PRESETS[settings.preset] if settings.checkpoint == "random" else read_config(checkpoint_folder(settings))
    dtype = resolve_dtype(settings.dtype, model, device)
    if device.type == "cpu":
        torch.set_num_threads(settings.threads or default_threads())
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "this CPU"
    # an open loop fixes no number of requests in flight, so that its levels have no floor
    levels = [level for level in document["levels"] if level.get("rate_hz") is None] if document is not None else []
    chosen = concurrency or [level["concurrency"] for level in levels] or DEFAULT_CONCURRENCY
    chosen = list(dict.fromkeys(chosen))  # a level that is named twice is spoken once
    measured, source = of_run(levels), run
    busy = busy_share(device)  # right before the limits, and before the engine of this process makes it busy
    limits = measure_limits(device, dtype)
    if measured_frames is not None:
        measured = _measure(settings, chosen, measured_frames)
        source = (
            f"the engine with graphs={settings.graphs}, in this process without HTTP, {MEASURED_ROUNDS} utterances "
            f"of at most {measured_frames} frames one after the other in each place"
        )
    found = roofline(
        model,
        limits,
        device=name,
        dtype=str(dtype).removeprefix("torch."),
        element_bytes=dtype.itemsize,
        context=context,
        chunk_frames=chunk_frames or settings.chunk_frames,
        concurrency=chosen,
        measured=measured,
        source=source,
    )
    if as_json:
        say_json(found.to_json())
    else:
        say_page(table_of(found))
        say()
        say_text(note_of(found), "")
    tell = say_aside if as_json else partial(say_text, indent="")
    if doubt is not None:
        tell("")
        tell(doubt)
    if busy is not None and busy >= BUSY_SHARE:
        tell("")
        tell(
            f"The device was busy: {busy:.0%} of it was in use by others just before it was measured, so the limits "
            "are probably too low."
        )
    if folder is not None:
        write_json(folder.path / JSON_NAME, found.to_json(), indent=None)
    return EXIT_OK


def _check_hardware(run: str, document: Mapping[str, Any], device: torch.device) -> str | None:
    """Refuse a run that was measured on other hardware than ``device``, with ConfigError.

    A line to print if run.json does not tell which hardware it was, else None.
    """
    there, here = hardware_name(document), _this_hardware(device)
    if device.type == "cpu" and there.startswith(UNKNOWN_CPU):
        return f"{run} does not tell which hardware it was measured on ({there}); the limits are those of {here}."
    if there != here:
        raise ConfigError(
            f"--run {run} was measured on {there}, and this device is {here}: the limits of one say nothing about the "
            f"other; {ON_THAT_MACHINE}"
        )
    return None


def _this_hardware(device: torch.device) -> str:
    """What run.json would call the hardware of ``device``, for a server launched here."""
    import torch

    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return cpu_name(cpu_model(), usable_cores())


def _measure(settings: Any, concurrency: Sequence[int], frames: int) -> dict[int, Measured]:
    """Let the engine speak at each concurrency."""
    from statistics import median

    from reference_impl.build import build_engine
    from reference_impl.roofline.closed_loop import closed_loop, text_of

    if max(concurrency) > settings.max_batch:
        raise ConfigError(
            f"--concurrency {max(concurrency)}: reference.max_batch={settings.max_batch} requests are spoken together"
        )
    engine = build_engine(settings)
    found = {}
    try:
        text = text_of(frames, engine.model.config.frame_rate_hz)
        for places in concurrency:
            closed_loop(engine, text, places, 1, max_frames=frames)  # warms up this batch size
            pace = closed_loop(engine, text, places, MEASURED_ROUNDS, max_frames=frames)
            found[places] = Measured(median(pace.request_rtf), pace.audio_per_s)
            say_aside(f"omni-bench: {places} at once: {pace.audio_per_s:.2f} audio-s/s, {pace.stall_s:.2f} s of stalls")
    finally:
        engine.stop()
    return found
