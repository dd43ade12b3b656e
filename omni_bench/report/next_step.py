"""What to do next: the advice of each reason, and when words are wrong, what tells whether company is to blame."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from omni_bench.records.invalid_reason import CROSS_TALK_CODES, PARITY_CODES, Code, client_last, next_steps, reasons_of

_WORDS = frozenset({Code.WER}) | CROSS_TALK_CODES | PARITY_CODES


def next_steps_of(run: Mapping[str, Any]) -> list[str]:
    """The steps, the one about wrong words first; [] for a run that is valid."""
    reasons = client_last(reasons_of(run))
    words = wrong_words_step(run) if any(reason.code in _WORDS for reason in reasons) else None
    return [*([words] if words else []), *next_steps(reasons)]


def wrong_words_step(run: Mapping[str, Any]) -> str | None:
    """What separates a fault of the server under load from one that it always has; None if nothing was judged.

    By what ``parity`` of the levels counted: utterances damaged beside the same request alone, and corrupted alone.
    """
    if run["provenance"]["judge"] is None:
        return None
    checked = [level["parity"] for level in run["levels"] if level.get("parity")]
    judged = sum(parity["judged"] or 0 for parity in checked)
    if not judged:
        again = _with_parity(run["provenance"]["command"])
        return f"Run it again with checks=parity, which tells whether the same requests are fine when sent alone{again}"
    company, alone = (sum(parity[name] or 0 for parity in checked) for name in ("worse", "corrupted_alone"))
    if alone:
        return (
            f"{alone} of {judged} requests are corrupted when sent alone too: look at the model, its weights and the "
            "text before it (load.concurrency=[1] is enough to see it)."
        )
    if company:
        return (
            f"The same requests are fine alone, and {company} of {judged} are damaged in company: look at what "
            "requests in flight share (buffers, slots, caches), from where the two recordings part."
        )
    return f"None of the {judged} requests that were sent alone too is damaged: raise checks.parity_requests."


def _with_parity(command: Sequence[str]) -> str:
    """The run's own command with parity, to be copied; only a full stop if no command is on record."""
    if list(command[1:2]) != ["run"] or "--resume" in command:
        return "."
    words = [word for word in command if not word.startswith(("checks=", "checks.parity_requests=", "hydra.run.dir="))]
    return f": {shlex.join([*words, 'checks=parity'])}"
