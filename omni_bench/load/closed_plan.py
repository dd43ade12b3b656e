"""The load plan: which request is sent in which level, decided before anything is sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from omni_bench.errors import ConfigError, DatasetError
from omni_bench.load.clients.wire_forms import FORMS
from omni_bench.records.level import level_name

if TYPE_CHECKING:  # the load worker imports this module and must stay light
    from omni_bench.records.config import ClientConfig, LoadConfig
    from omni_bench.records.prompt import Prompt
from omni_bench.records.plan import LevelPlan, PlannedRequest

# Distinct warm-up prompts that a plan asks for, at most: enough for lengths to vary, few
# enough to leave most of a small data set to the measured requests.
WARMUP_POOL_PROMPTS = 16


def requests_in_level(load: LoadConfig, concurrency: int) -> int:
    """Measured requests of a level: ``load.requests_per_level``, but at least ``load.requests_per_slot`` a slot.

    With one request a slot a level is a single burst, in which nothing is steady.
    """
    return max(load.requests_per_level, load.requests_per_slot * concurrency)


def measured_requests(load: LoadConfig) -> int:
    """Measured requests of all levels together."""
    return sum(requests_in_level(load, concurrency) for concurrency in load.concurrency)


def prompts_needed(load: LoadConfig) -> int:
    """Prompts that :func:`build_level_plans` needs: every measured request its own, plus the warm-up pool.

    The pool holds as many prompts as the largest level's warm-up has requests, but at most
    :data:`WARMUP_POOL_PROMPTS`: warm-up may cycle over its prompts, it may only never use a
    measured one.
    """
    return measured_requests(load) + min(_largest_warmup(load), WARMUP_POOL_PROMPTS)


def build_level_plans(prompts: Sequence[Prompt], load: LoadConfig, client: ClientConfig) -> list[LevelPlan]:
    """The levels in the order in which they run.

    The levels of ``load.concurrency`` take the prompts one after another, each as many as it has
    requests (:func:`requests_in_level`); the prompts after all measured ones are the warm-up
    pool, over which the levels' warm-ups go on cycling. Request number ``k`` in this numbering (warm-up
    after all measured) has seed ``client.seed + k``. Prompts and seeds belong to a level's
    place in the list, so rotating the order (``load.rotate_levels``) changes neither.

    Raises DatasetError when there are fewer prompts than :func:`prompts_needed`, ConfigError
    when a concurrency is listed twice (request ids would not be unique).
    """
    if len(set(load.concurrency)) != len(load.concurrency):
        raise ConfigError(f"load.concurrency={list(load.concurrency)} lists a level twice; each may be listed once")
    needed = prompts_needed(load)
    if len(prompts) < needed:
        raise DatasetError(
            f"the load plan needs {needed} prompts ({measured_requests(load)} measured, the rest for warm-up), got "
            f"{len(prompts)}; lower load.requests_per_level and load.requests_per_slot, or allow repeats "
            "(dataset.allow_repeats=true)"
        )
    measured_count = measured_requests(load)
    pool = prompts[measured_count : measured_count + max(_largest_warmup(load), 1)]
    levels = []
    taken = warmed_up = 0
    for concurrency in load.concurrency:
        measured = []
        for number in range(requests_in_level(load, concurrency)):
            request_id = f"{level_name(concurrency)}-{number:04d}"
            measured.append(planned_request(request_id, prompts[taken], client, taken, warmup=False))
            taken += 1
        warmup = []
        for number in range(load.warmup_per_slot * concurrency):
            prompt = pool[warmed_up % len(pool)]
            request_id = f"{level_name(concurrency)}-w{number:04d}"
            warmup.append(planned_request(request_id, prompt, client, measured_count + warmed_up, warmup=True))
            warmed_up += 1
        levels.append(LevelPlan(concurrency=concurrency, warmup=tuple(warmup), measured=tuple(measured)))
    first = load.rotate_levels % len(levels) if levels else 0
    return levels[first:] + levels[:first]


def planned_request(
    request_id: str,
    prompt: Prompt,
    client: ClientConfig,
    index: int,
    *,
    warmup: bool,
    scheduled_offset_ns: int | None = None,
) -> PlannedRequest:
    """Request number ``index`` of a run, with its body and seed."""
    seed = None if client.seed is None else client.seed + index
    return PlannedRequest(
        request_id=request_id,
        prompt_id=prompt.id,
        body=FORMS[client.kind].build_body(prompt, client, seed),
        seed=seed,
        warmup=warmup,
        scheduled_offset_ns=scheduled_offset_ns,
    )


def _largest_warmup(load: LoadConfig) -> int:
    return load.warmup_per_slot * max(load.concurrency, default=0)
