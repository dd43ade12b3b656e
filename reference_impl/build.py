"""From settings to a running engine."""

from __future__ import annotations

from omni_bench.errors import ConfigError
from reference_impl.engine.engine import Engine
from reference_impl.engine.stages import stages_for
from reference_impl.loading.from_settings import load_weights
from reference_impl.settings import ServerSettings


def build_engine(settings: ServerSettings) -> Engine:
    """Load the weights and start their engine, warmed up by one short sentence.

    Raises ConfigError for an unknown fault and for stages that do not go together, and ConfigError and
    CheckpointError as :func:`reference_impl.loading.from_settings.load_weights` does.
    """
    slow_graph = settings.fault is not None and settings.graphs == "full_step" and _slows(settings.fault)
    if settings.fault is not None and settings.graphs != "off" and not slow_graph:
        raise ConfigError(
            f"reference.fault={settings.fault!r} is built into the eager step and needs graphs=off, "
            f"not {settings.graphs!r} (slow_N takes full_step too)"
        )
    new_engine, stages = Engine, stages_for(settings)
    if settings.fault is not None:
        # a server without a fault does not even load them
        from reference_impl.faults.engines import with_fault

        new_engine, stages = with_fault(settings.fault, stages, slow_graph=slow_graph)
    model, origin = load_weights(settings)
    engine = new_engine(model, settings, origin, stages)
    engine.warm_up()
    return engine


def _slows(fault: str) -> bool:
    """Whether it is ``slow_N``, which a step that is one graph can have too."""
    from reference_impl.faults.catalogue import slow_percent

    return slow_percent(fault) is not None
