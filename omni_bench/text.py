"""Text that came from somewhere else, cut for messages and tables."""

from __future__ import annotations


def shorten(text: str, limit: int) -> str:
    """``text`` cut to at most ``limit`` characters; three dots at the end say that it was cut."""
    return text if len(text) <= limit else text[: max(limit - 3, 0)] + "..."[:limit]
