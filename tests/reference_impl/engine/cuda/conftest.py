"""In Triton's interpreter, a kernel that reads or writes beside its tensors fails instead of finding whatever is there.

A card notices that at an address that is mapped to nothing, which may take hours of load.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from small_model import INTERPRETED
from torch import Tensor


def span(tensor: Tensor) -> tuple[int, int]:
    """The first address of a tensor and the one behind its last number."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size() if tensor.numel() else 0


def check(pointers: np.ndarray, mask: np.ndarray, size: int, spans: list[tuple[int, int]]) -> None:
    """Raise IndexError if one of the ``pointers`` that count (``mask``) is in no span; ``size``: bytes there."""
    asked = np.asarray(pointers)[np.asarray(mask, dtype=bool)].astype(np.uint64)
    inside = np.zeros(asked.shape, dtype=bool)
    for begin, end in spans:
        inside |= (asked >= begin) & (asked + np.uint64(size) <= end)
    if not inside.all():
        raise IndexError(f"{(~inside).sum()} of {inside.size} addresses are beside the kernel's tensors")


@pytest.fixture(autouse=INTERPRETED)
def within_bounds(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every load and store of a kernel is looked at; see the module docstring."""
    from triton.runtime import interpreter

    builder, executor = interpreter.InterpreterBuilder, interpreter.GridExecutor
    load, store, prepare = builder.create_masked_load, builder.create_masked_store, executor._init_args_hst
    spans: list[tuple[int, int]] = []

    def element_bytes(pointers: object) -> int:
        return max(1, pointers.get_element_ty().primitive_bitwidth // 8)

    def checked_load(self, pointers, mask, *more):
        check(pointers.data, mask.data, element_bytes(pointers), spans)
        return load(self, pointers, mask, *more)

    def checked_store(self, pointers, value, mask, *more):
        check(pointers.data, mask.data, element_bytes(pointers), spans)
        return store(self, pointers, value, mask, *more)

    def prepared(self, args, kwargs):
        found = prepare(self, args, kwargs)
        spans[:] = [span(value) for value in [*found[0], *found[1].values()] if isinstance(value, Tensor)]
        return found

    monkeypatch.setattr(builder, "create_masked_load", checked_load)
    monkeypatch.setattr(builder, "create_masked_store", checked_store)
    monkeypatch.setattr(executor, "_init_args_hst", prepared)
    yield
