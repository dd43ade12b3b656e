"""``python -m omni_bench`` is ``omni-bench``; the console script begins here too."""

import sys


def main() -> int:
    """The command line of :func:`omni_bench.commands.cli.main`; a Ctrl-C while it is imported ends as any other."""
    try:
        from omni_bench.commands.cli import main as command_line

        return command_line()
    except KeyboardInterrupt:
        print("omni-bench: error: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
