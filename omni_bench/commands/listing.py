"""``omni-bench list``: what can be chosen."""

from __future__ import annotations

from omni_bench.config.compose import group_options
from omni_bench.datasets.load import list_datasets


def list_command() -> int:
    """Print scenarios, data sets, targets and wire forms with a line about each. Raises ConfigError, DatasetError."""
    bundled = {
        f"{info.name}/{info.locale}": f"{info.prompts} prompts" for info in list_datasets() if info.prompts is not None
    }
    _print_group("Scenarios (scenario=NAME)", group_options("scenario"))
    _print_group("Data sets (dataset=NAME)", group_options("dataset"))
    _print_group("Bundled sentences", bundled)
    _print_group("Targets (target=NAME)", group_options("target"))
    _print_group("Wire forms (client=NAME)", group_options("client"))
    _print_group("Judges (asr=NAME)", group_options("asr"))
    print("Your own: omni-bench run --config-dir FOLDER scenario=NAME, with FOLDER/scenario/NAME.yaml")
    return 0


def _print_group(title: str, options: dict[str, str]) -> None:
    width = max(map(len, options), default=0)
    print(title)
    for name, what in options.items():
        print(f"  {name:<{width}}  {what}")
    print()
