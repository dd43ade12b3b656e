"""Sampling filters against those of transformers on the same logits."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from reference_impl.model.sampling import penalise, restrict
from reference_impl.official_parity.official import CODES, CONTROL, EOS
from reference_impl.official_parity.table import Result

ROWS, LENGTH, MIN_NEW_TOKENS = 6, 40, 2
SETTINGS = (
    {"temperature": 0.9, "top_k": 50, "top_p": 1.0, "repetition_penalty": 1.05},
    {"temperature": 0.7, "top_k": 20, "top_p": 0.8, "repetition_penalty": 1.3},
    {"temperature": 1.5, "top_k": 0, "top_p": 0.5, "repetition_penalty": 1.0},
    {"temperature": 0.3, "top_k": 5, "top_p": 0.95, "repetition_penalty": 0.8},
)


def logits_and_history(seed: int) -> tuple[Tensor, Tensor]:
    """Logits [ROWS, V] and the ids drawn so far [ROWS, LENGTH], many of them more than once.

    Half of the rows are rounded so that they hold ties, also with the k-th largest.
    """
    generator = torch.Generator().manual_seed(seed)
    logits = 4 * torch.randn(ROWS, CODES + CONTROL, generator=generator)
    logits[::2] = (2 * logits[::2]).round() / 2
    return logits, torch.randint(0, CODES, (ROWS, LENGTH), generator=generator)


def check_processors() -> Iterator[Result]:
    """The distribution that is drawn from, for every setting, with a long history and at the start."""
    from transformers import (
        LogitsProcessorList,
        MinNewTokensLengthLogitsProcessor,
        RepetitionPenaltyLogitsProcessor,
        SuppressTokensLogitsProcessor,
        TemperatureLogitsWarper,
        TopKLogitsWarper,
        TopPLogitsWarper,
    )

    suppressed = [i for i in range(CODES, CODES + CONTROL) if i != EOS]
    for number, settings in enumerate(SETTINGS, start=1):
        errors = []
        for length in (0, 1, MIN_NEW_TOKENS, LENGTH):
            logits, history = logits_and_history(seed=number)
            history = history[:, :length]
            chain = [
                RepetitionPenaltyLogitsProcessor(settings["repetition_penalty"]),
                MinNewTokensLengthLogitsProcessor(0, MIN_NEW_TOKENS, EOS, device="cpu"),
                SuppressTokensLogitsProcessor(suppressed, device="cpu"),
                TemperatureLogitsWarper(settings["temperature"]),
            ]
            if settings["top_k"]:
                chain.append(TopKLogitsWarper(settings["top_k"]))
            chain.append(TopPLogitsWarper(settings["top_p"]))
            expected = LogitsProcessorList(chain)(history, logits.clone()).softmax(-1)
            errors.append((our_distribution(logits, history, settings, suppressed) - expected).abs().max().item())
        shown = ", ".join(f"{key} {value}" for key, value in settings.items())
        yield Result(f"sampling: {shown}", "any", max(errors), f"{len(errors)} histories × {ROWS} rows")


def our_distribution(logits: Tensor, history: Tensor, settings: dict[str, float], suppressed: list[int]) -> Tensor:
    """The same with this package's functions, in the order in which the decode loop applies them."""
    seen = torch.zeros_like(logits, dtype=torch.bool).scatter(1, history, True)
    logits = penalise(logits, seen, settings["repetition_penalty"])
    if history.shape[1] < MIN_NEW_TOKENS:
        logits[:, EOS] = float("-inf")
    logits[:, suppressed] = float("-inf")
    return restrict(logits, settings["temperature"], settings["top_k"], settings["top_p"]).softmax(-1)
