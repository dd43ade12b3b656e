"""``python -m omni_bench`` is ``omni-bench``."""

import sys

from omni_bench.cli import main

if __name__ == "__main__":
    sys.exit(main())
