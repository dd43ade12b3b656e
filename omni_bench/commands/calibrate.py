"""``omni-bench calibrate``: what the client adds to a TTFP on this machine, at each concurrency of a scenario."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from omni_bench.errors import EXIT_OK, ConfigError
from omni_bench.records.config import RAY
from omni_bench.records.recording import bias_target_ms
from omni_bench.run.calibration import Calibration, calibrate, calibrated_levels, calibration_file
from omni_bench.run.config.compose import compose
from omni_bench.terminal import say, say_aside, say_json, say_text

COLUMNS = "streams procs requests bias p50 bias p99 jitter p99 lag p99 CPU wait target"


def calibrate_command(overrides: Sequence[str] = (), *, as_json: bool = False) -> int:
    """Measure, print (``as_json``: the levels as a list) and keep.

    Raises ConfigError for overrides that make no configuration, and what a load raises.
    """
    config = compose(overrides)
    if config.load.engine == RAY:
        raise ConfigError(
            "load.engine=ray: the server of known send times is on this machine, and so is the client that is "
            "measured: calibrate with load.engine=local, on each machine"
        )
    levels = calibrated_levels(config.load)
    if as_json:
        found = calibrate(levels, config.client, config.load.workers, lambda one: say_aside(_row(one)))
        say_json([asdict(one) for one in found])
        return EXIT_OK
    say_text("From a paced server's write to the client's stamp of the first audio, in ms; no run subtracts it.", "")
    say()
    say(COLUMNS)
    calibrate(levels, config.client, config.load.workers, lambda one: say(_row(one)))
    say()
    say("Runs on this machine print it beside TTFP. Kept in:")
    say(calibration_file())
    return EXIT_OK


def _row(one: Calibration) -> str:
    bias, lag = one.bias, one.lag
    waited = f"{lag.cpu.wait_s:.2f} s" if lag is not None and lag.cpu is not None else "n/a"
    target, target_ms = "none", bias_target_ms(bias.concurrency)
    if target_ms is not None:
        target = f"{target_ms:g} ms: {'kept' if bias.p99_ms <= target_ms else 'MISSED'}"
    figures = (one.jitter_p99_ms, lag.p99_ms if lag is not None else None)
    jitter, late = ("n/a" if figure is None else f"{figure:.2f}" for figure in figures)
    return (
        f"{bias.concurrency:7d} {bias.workers:5d} {bias.requests:8d} {bias.p50_ms:8.2f} {bias.p99_ms:8.2f} "
        f"{jitter:>10} {late:>7} {waited:>8} {target}"
    )
