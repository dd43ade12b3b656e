"""From settings to a running engine."""

from __future__ import annotations

from omni_bench.errors import ConfigError
from reference_impl.engine.engine import Engine
from reference_impl.loading.from_settings import load_weights
from reference_impl.settings import ServerSettings


def build_engine(settings: ServerSettings) -> Engine:
    """Load the weights and start their engine, warmed up by one short sentence.

    Raises ConfigError and CheckpointError as :func:`reference_impl.loading.from_settings.load_weights` does.
    """
    if settings.fault is not None and settings.graphs != "off":
        raise ConfigError(
            f"reference.fault={settings.fault!r} is built into the eager step and needs graphs=off, "
            f"not {settings.graphs!r}"
        )
    model, origin = load_weights(settings)
    engine = _engine_class(settings.fault)(model, settings, origin)
    engine.warm_up()
    return engine


def _engine_class(fault: str | None) -> type[Engine]:
    if fault is None:
        return Engine
    # what is broken on purpose is not even loaded without need
    from reference_impl.faults.engines import faulty_engine

    return faulty_engine(fault)
