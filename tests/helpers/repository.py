"""Where things lie in this repository."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
HELPERS = ROOT / "tests" / "helpers"
