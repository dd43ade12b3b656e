"""Shell completion: Hydra's own, for a program whose Hydra application is a subcommand.

``eval "$(omni-bench run -sc install=bash)"`` installs Hydra's script, which then calls
``omni-bench -sc query=bash`` with the typed line in ``COMP_LINE``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence


def complete(arguments: list[str], subcommands: Sequence[str]) -> int:
    """Answer Hydra's script: subcommands first, then Hydra's completion of ``omni-bench run``."""
    line = os.environ.get("COMP_LINE", "")
    typed = re.match(r"(\s*\S+)\s+run\s(.*)", line, flags=re.DOTALL)
    if line and typed is None:
        words = line.split()[1:]
        start = words[0] if words else ""
        if len(words) <= 1 and not (words and line.endswith(" ")):
            print(" ".join(name for name in subcommands if name.startswith(start)))
        return 0
    if typed is not None:
        os.environ["COMP_LINE"] = f"{typed.group(1)} {typed.group(2)}"
    from omni_bench.commands.run import run_command

    return run_command(arguments)
