"""The names of the faults, what each does, and what must notice it. Loads no PyTorch."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from omni_bench.errors import ConfigError

MODEL, SPEED = "model", "speed"
DETECTORS = (
    "wer", "parity", "cross_talk", "runaway", "empty", "clicks", "trailing_audio", "repeated_audio", "length", "ttfp",
    "stalls", "audio_per_s", "ab",
)  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """One entry of the catalogue.

    ``kind``: ``model`` (the audio is wrong) or ``speed`` (the audio is right). ``detectors``: of
    DETECTORS, those that were named in advance. ``min_concurrency``: requests in flight from
    which it shows. ``source``: the public report it was learned from.
    """

    name: str
    kind: str
    what: str
    detectors: tuple[str, ...]
    min_concurrency: int
    source: str


FAULTS: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        Fault(
            "shared_proj_buf",
            MODEL,
            "the code predictor's embedding buffer is kept across calls: another request overwrites what is read later",
            ("wer", "parity"),
            2,
            "vllm-omni PR 2012, root cause 1",
        ),
        Fault(
            "broadcast_add",
            MODEL,
            "[B, 1, H] + [B, H] broadcasts to [B, B, H] in the talker's input: every row gets another row's share",
            ("wer", "parity"),
            2,
            "vllm-omni PR 2012, root cause 2",
        ),
        Fault(
            "noncausal_mask",
            MODEL,
            "re-prefill attention without the causal mask: positions that are not predicted yet leak in",
            ("wer", "parity"),
            1,
            "vllm-omni PR 2012, review",
        ),
        Fault(
            "stale_rows",
            MODEL,
            "a fixed-window buffer is not zeroed between frames and requests, and the mask shows one position too many",
            ("wer", "parity"),
            1,
            "vllm-omni PR 1913, review",
        ),
        Fault(
            "pinned_alias",
            MODEL,
            "one pinned host buffer takes every chunk, and the sender reads it one step later",
            ("cross_talk", "wer"),
            2,
            "vllm-omni PR 3164, review",
        ),
        Fault(
            "payload_view",
            MODEL,
            "a chunk's payload stays a view of a buffer that the next step overwrites",
            ("cross_talk", "wer"),
            2,
            "vllm-omni PR 3164, review",
        ),
        Fault(
            "graph_rng",
            MODEL,
            "the sampler's random numbers are constants of a captured graph: every step draws the same ones",
            ("wer", "parity", "runaway"),
            1,
            "vllm-omni PR 2012, review",
        ),
        Fault(
            "graph_pool",
            MODEL,
            "two graphs share their output memory: the second replays before the first one's output is read",
            ("wer", "parity"),
            2,
            "vllm-omni PR 2059",
        ),
        Fault(
            "lost_left_context",
            MODEL,
            "Code2Wav decodes each chunk without what came before it",
            ("clicks", "wer"),
            1,
            "vllm-omni PR 1945",
        ),
        Fault(
            "neighbour_slot",
            MODEL,
            "a finished request's slot has a new owner before its last chunks are sent: the new owner gets them",
            ("cross_talk",),
            2,
            "vllm-omni issues 4415, 4664",
        ),
        Fault(
            "ref_bleed",
            MODEL,
            "the reference text of another request in flight is spoken first",
            ("cross_talk",),
            2,
            "sglang-omni issue 350",
        ),
        Fault(
            "padding_tail",
            MODEL,
            "the last chunk goes out at the full size of a padded graph, with stale samples behind its own",
            ("length", "trailing_audio", "repeated_audio"),
            1,
            "vllm-omni issue 4466",
        ),
        Fault(
            "stop_missed",
            MODEL,
            "the end token is never drawn: babble up to the cap, on HTTP 200",
            ("runaway",),
            1,
            "vllm-omni issue 5889",
        ),
        Fault(
            "empty_ok",
            MODEL,
            "a trim of [:-0] leaves no samples: HTTP 200, a clean end and nothing to hear",
            ("empty",),
            1,
            "vllm-omni PR 3071, issue 4963",
        ),
        Fault(
            "host_roundtrip",
            SPEED,
            "codes and hidden state go to the host and back at each of the 16 steps of a frame",
            ("ab",),
            1,
            "vllm-omni PR 1985",
        ),
        Fault(
            "slow_attribute",
            SPEED,
            "an attribute on the hot path walks through all modules each time it is read",
            ("ab",),
            1,
            "vllm-omni PR 1982",
        ),
        Fault(
            "serial_predictor",
            SPEED,
            "requests pass the code predictor one at a time",
            ("audio_per_s", "ab"),
            4,
            "the design before batching",
        ),
        Fault(
            "late_first_chunk",
            SPEED,
            "the first chunk waits until a whole steady chunk is there",
            ("ttfp",),
            1,
            "vllm-omni PR 1930",
        ),
        Fault(
            "bursty_chunks",
            SPEED,
            "after the first chunk, audio leaves in bursts of seconds at an unchanged mean rate",
            ("stalls",),
            1,
            "vllm-omni issues 2562, 4913",
        ),
        Fault(
            "longer_audio",
            SPEED,
            "8 % more audio for the same text, so that audio/s looks better",
            ("length",),
            1,
            "vllm-omni PR 3071, discussion",
        ),
        Fault("slow_5", SPEED, "every step takes 5 % longer", ("ab",), 1, "the smallest slowdown worth a verdict"),
        Fault("slow_8", SPEED, "every step takes 8 % longer", ("ab",), 1, "a slowdown that a verdict must not miss"),
    )
}

FAULT_NAMES: tuple[str, ...] = tuple(FAULTS)


MAX_SLOW_PERCENT = 200


def slow_percent(name: str) -> int | None:
    """N of ``slow_N``, the slowdown in percent of a step, 1 to MAX_SLOW_PERCENT; None for any other name.

    The catalogue has two of them; a study of what a machine can tell apart takes the one it needs.
    """
    match = re.fullmatch(r"slow_([1-9]\d{0,2})", name)
    return int(match[1]) if match and int(match[1]) <= MAX_SLOW_PERCENT else None


def fault_called(name: str) -> Fault:
    """The entry ``name``, or that of any ``slow_N``. Raises ConfigError that lists the valid ones."""
    percent = slow_percent(name)
    if name not in FAULTS and percent is not None:
        return replace(FAULTS["slow_8"], name=name, what=f"every step takes {percent} % longer", source="a chosen one")
    if name not in FAULTS:
        raise ConfigError(f"reference.fault={name!r} is unknown; valid: null, {', '.join(FAULT_NAMES)}")
    return FAULTS[name]
