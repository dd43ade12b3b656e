"""The names of the faults, what each does, and what must notice it. Loads no PyTorch."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from omni_bench.errors import ConfigError

MODEL, SPEED = "model", "speed"
PREDICTOR, BATCH, CODE2WAV, CHUNKS, ENGINE = "predictor", "batch", "code2wav", "chunks", "engine"
"""Where a mistake can be: one of the stages of an engine, the strategy of the code predictor, the engine itself."""


@dataclass(frozen=True)
class Fault:
    """One entry of the catalogue.

    ``kind``: ``model`` (the audio is wrong) or ``speed`` (the audio is right). ``detectors``: of
    the self-test (:mod:`omni_bench.selftest.detectors`), those that were named in advance, or ``ab``.
    ``min_concurrency``: requests in flight from which it shows. ``source``: the public report it was learned from.
    ``stage`` is replaced by ``code``, a name in a module of this package, which is loaded when it is asked for.
    ``overrides``: KEY=VALUE that it needs in the self-test, beside its switch.
    """

    name: str
    kind: str
    what: str
    detectors: tuple[str, ...]
    min_concurrency: int
    source: str
    stage: str
    code: str
    overrides: tuple[str, ...] = ()


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
            PREDICTOR,
            ".predictor:SharedProjectionBuffer",
        ),
        Fault(
            "broadcast_add",
            MODEL,
            "[B, 1, H] + [B, H] broadcasts to [B, B, H] in the talker's input: every row gets another row's share",
            ("wer", "parity"),
            2,
            "vllm-omni PR 2012, root cause 2",
            BATCH,
            ".batches:BroadcastBatch",
        ),
        Fault(
            "noncausal_mask",
            MODEL,
            "re-prefill attention without the causal mask: positions that are not predicted yet leak in",
            ("wer", "parity"),
            1,
            "vllm-omni PR 2012, review",
            PREDICTOR,
            ".predictor:NonCausalWindow",
        ),
        Fault(
            "stale_rows",
            MODEL,
            "a fixed-window buffer is not zeroed between frames and requests, and the mask shows one position too many",
            ("wer", "parity"),
            1,
            "vllm-omni PR 1913, review",
            PREDICTOR,
            ".predictor:StaleRows",
        ),
        Fault(
            "pinned_alias",
            MODEL,
            "one pinned host buffer takes every chunk, and the sender reads it one step later",
            ("cross_talk", "wer"),
            2,
            "vllm-omni PR 3164, review",
            CODE2WAV,
            ".audio:PinnedAliasWorker",
        ),
        Fault(
            "payload_view",
            MODEL,
            "a chunk's payload stays a view of a buffer that the next step overwrites",
            ("cross_talk", "wer"),
            2,
            "vllm-omni PR 3164, review",
            CODE2WAV,
            ".audio:PayloadViewWorker",
        ),
        Fault(
            "graph_rng",
            MODEL,
            "the sampler's random numbers are constants of a captured graph: every step draws the same ones",
            ("wer", "parity", "runaway"),
            1,
            "vllm-omni PR 2012, review",
            BATCH,
            ".batches:FrozenRandomBatch",
        ),
        Fault(
            "graph_pool",
            MODEL,
            "two graphs share their output memory: the second replays before the first one's output is read",
            ("wer", "parity"),
            2,
            "vllm-omni PR 2059",
            PREDICTOR,
            ".predictor:SharedGraphPool",
        ),
        Fault(
            "lost_left_context",
            MODEL,
            "Code2Wav decodes each chunk without what came before it",
            ("clicks", "wer"),
            1,
            "vllm-omni PR 1945",
            CODE2WAV,
            ".audio:LostContextWorker",
        ),
        Fault(
            "neighbour_slot",
            MODEL,
            "a finished request's slot has a new owner before its last chunks are sent: the new owner gets them",
            ("cross_talk",),
            2,
            "vllm-omni issues 4415, 4664",
            ENGINE,
            ".engines:NeighbourSlotEngine",
        ),
        Fault(
            "ref_bleed",
            MODEL,
            "the reference text of another request in flight is spoken first",
            ("cross_talk",),
            2,
            "sglang-omni issue 350",
            ENGINE,
            ".engines:ReferenceBleedEngine",
            ("client.send_reference=true",),  # without a reference there is nothing to bleed
        ),
        Fault(
            "padding_tail",
            MODEL,
            "the last chunk goes out at the full size of a padded graph, with stale samples behind its own",
            ("length", "trailing_audio", "repeated_audio"),
            1,
            "vllm-omni issue 4466",
            CODE2WAV,
            ".audio:PaddingTailWorker",
        ),
        Fault(
            "stop_missed",
            MODEL,
            "the end token is never drawn: babble up to the cap, on HTTP 200",
            ("runaway",),
            1,
            "vllm-omni issue 5889",
            BATCH,
            ".batches:EndlessBatch",
            # babble up to the cap: room for three times the speaking time, and not for a minute of it
            ("reference.max_seq_len=176", "load.requests_per_level=2"),
        ),
        Fault(
            "empty_ok",
            MODEL,
            "a trim of [:-0] leaves no samples: HTTP 200, a clean end and nothing to hear",
            ("empty",),
            1,
            "vllm-omni PR 3071, issue 4963",
            CODE2WAV,
            ".audio:NoSamplesWorker",
        ),
        Fault(
            "host_roundtrip",
            SPEED,
            "codes and hidden state go to the host and back at each of the 16 steps of a frame",
            ("ab",),
            1,
            "vllm-omni PR 1985",
            PREDICTOR,
            ".predictor:HostRoundTrip",
        ),
        Fault(
            "slow_attribute",
            SPEED,
            "an attribute on the hot path walks through all modules each time it is read",
            ("ab",),
            1,
            "vllm-omni PR 1982",
            PREDICTOR,
            ".predictor:SlowAttribute",
        ),
        Fault(
            "serial_predictor",
            SPEED,
            "requests pass the code predictor one at a time",
            ("audio_per_s", "ab"),
            4,
            "the design before batching",
            BATCH,
            ".batches:SerialBatch",
        ),
        Fault(
            "late_first_chunk",
            SPEED,
            "the first chunk waits until a whole steady chunk is there",
            ("ttfp",),
            1,
            "vllm-omni PR 1930",
            CHUNKS,
            ".engines:steady_chunks",
        ),
        Fault(
            "bursty_chunks",
            SPEED,
            "after the first chunk, audio leaves in bursts of seconds at an unchanged mean rate",
            ("stalls",),
            1,
            "vllm-omni issues 2562, 4913",
            CODE2WAV,
            ".audio:BurstyWorker",
        ),
        Fault(
            "longer_audio",
            SPEED,
            "8 % more audio for the same text, so that audio/s looks better",
            ("length",),
            1,
            "vllm-omni PR 3071, discussion",
            CODE2WAV,
            ".audio:LongerWorker",
        ),
        Fault(
            "slow_5",
            SPEED,
            "every step takes 5 % longer",
            ("ab",),
            1,
            "the smallest slowdown worth a verdict",
            BATCH,
            ".batches:SlowBatch",
        ),
        Fault(
            "slow_8",
            SPEED,
            "every step takes 8 % longer",
            ("ab",),
            1,
            "a slowdown that a verdict must not miss",
            BATCH,
            ".batches:SlowBatch",
        ),
    )
}

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
        raise ConfigError(f"reference.fault={name!r} is unknown; valid: null, {', '.join(FAULTS)}")
    return FAULTS[name]
