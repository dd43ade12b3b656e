"""How much the self-test does: requests, levels and repeats, and the configuration that all its runs share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from omni_bench.compare.ab.words import quoted
from omni_bench.datasets.bundled import read_bundled
from omni_bench.datasets.seed_tts import META_NAME
from omni_bench.errors import StoreError
from omni_bench.records.prompt import Prompt

DATASET, LOCALE = "seed_tts_mini", "en"
SHORTEST_CHARS, LONGEST_CHARS = 22, 38
"""Sentences of about two seconds: half the cost of the whole set, and still six or seven words."""

SEEDS_APART = 1000


@dataclass(frozen=True)
class SelftestPlan:
    """Size of a self-test. ``solo``: requests of each level that are sent once more alone (and two of them twice).

    ``clean_requests_per_level``: of the clean server's levels (None: as many as with the faults): the faults that show
    in many answers together are tried on them.
    ``wire_alone``: with faults of the wire too; what the wire breaks it breaks for many and for one.
    """

    concurrency: tuple[int, ...]
    requests_per_level: int
    solo: int
    repeats: int
    clean_runs: int
    judge_model: str
    wire_alone: bool = True
    clean_requests_per_level: int | None = None

    def overrides(self, repeat: int, prompts: Path) -> list[str]:
        """The configuration of repetition ``repeat``: other sentences in another order, other seeds."""
        return [
            "asr=none",  # the judge hears all runs together at the end
            "dataset=seed_tts",
            f"dataset.root={quoted(str(prompts))}",
            f"dataset.seed={repeat}",
            "dataset.allow_repeats=true",
            f"client.seed={repeat * SEEDS_APART}",
            "client.request_timeout_s=60",
            "target.probe=false",  # it would count as requests, which some faults count too
            f"load.concurrency={list(self.concurrency)}".replace(" ", ""),
            f"load.requests_per_level={self.requests_per_level}",
            "load.requests_per_slot=1",
            "load.warmup_per_slot=0",
            "load.lag_budget_ms=10000",  # nothing is timed to the millisecond here
            f"checks.parity_requests={self.solo}",
            # one shape of every step, whatever else runs: a request's codes must not depend on its neighbours at all
            "reference.deterministic=true",
            f"reference.max_batch={max(self.concurrency)}",
            "reference.max_seq_len=128",  # three times the longest of these sentences: babble ends soon
            "output.save_audio=all",
            "output.plots=false",
        ]


QUICK = SelftestPlan(
    concurrency=(4,),
    requests_per_level=6,
    solo=1,
    repeats=1,
    clean_runs=1,
    judge_model="tiny.en",
    wire_alone=False,
    clean_requests_per_level=24,
)
FULL = SelftestPlan(concurrency=(2, 4), requests_per_level=4, solo=2, repeats=3, clean_runs=20, judge_model="tiny.en")


def write_prompts(folder: Path) -> list[Prompt]:
    """Write the short sentences of the bundled set as a seed-tts folder; those sentences.

    Their recordings are copied beside them. Raises DatasetError, StoreError.
    """
    source = read_bundled(DATASET, LOCALE)
    prompts = map(source.take, range(len(source.ids)))
    short = [prompt for prompt in prompts if SHORTEST_CHARS <= len(prompt.text) <= LONGEST_CHARS]
    place = folder / LOCALE
    rows = []
    try:
        place.mkdir(parents=True, exist_ok=True)
        for prompt in short:
            wav = ""
            if prompt.ref_audio is not None:
                wav = prompt.ref_audio.name
                copy = place / wav
                if not copy.exists():
                    copy.write_bytes(prompt.ref_audio.read_bytes())
            rows.append(f"{prompt.id}|{prompt.ref_text or ''}|{wav}|{prompt.text}\n")
        (place / META_NAME).write_text("".join(rows), encoding="utf-8")
    except OSError as error:
        raise StoreError(f"cannot write the prompts to {place}: {error}") from None
    return short


def describe(plan: SelftestPlan) -> Sequence[str]:
    """The size in words, for a report."""
    levels = ", ".join(map(str, plan.concurrency))
    return (
        f"{plan.repeats} run(s) of every fault, {plan.clean_runs} of the clean server",
        f"{plan.requests_per_level} requests at concurrency {levels} each, {plan.solo} of each sent once more alone",
        f"sentences of {SHORTEST_CHARS} to {LONGEST_CHARS} characters of {DATASET}, judge {plan.judge_model}",
    )
