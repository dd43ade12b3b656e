"""Values on the command lines of the servers that are started as processes of their own."""

from __future__ import annotations

import argparse


def port(text: str) -> int:
    """A port, 0 for any free one. Raises argparse.ArgumentTypeError."""
    if text.isascii() and text.isdigit() and int(text) <= 65535:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a port; valid: 0 to 65535")


def process_id(text: str) -> int:
    """The id of a process. Raises argparse.ArgumentTypeError."""
    if text.isascii() and text.isdigit() and 0 < int(text) < 2**31:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a process id; valid: 1 and up")
