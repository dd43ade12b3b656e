"""Reasons of invalid levels and runs, made by code, and as people read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omni_bench.records.invalid_reason import Code, InvalidReason, reasons_of


def because(code: Code, text: str = "because") -> InvalidReason:
    """A reason of this code, whatever its text."""
    return InvalidReason(code.value, code.blame.value, text)


def said(record: Mapping[str, Any]) -> list[str]:
    """The texts of a run.json or of one of its levels."""
    return [str(reason) for reason in reasons_of(record)]
