"""Text of error messages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from omni_bench.errors import shorten


@given(st.text(), st.integers(0, 40))
def test_the_limit_holds_and_shorter_text_is_left_alone(text, limit):
    cut = shorten(text, limit)
    assert len(cut) <= limit
    assert (cut == text) == (len(text) <= limit or text == cut)
    if len(text) > limit >= 3:
        assert cut == text[: limit - 3] + "..."
