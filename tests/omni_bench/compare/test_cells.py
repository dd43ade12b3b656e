"""Which metrics have a row a level."""

from types import SimpleNamespace

import pytest

from omni_bench.compare.cells import shown_metrics
from omni_bench.compare.views import LevelView


def run(ttfp_ms, ttfa_ms):
    metrics = {"ttfp_ms": {"p50": ttfp_ms}, "ttfa_ms": {"p50": ttfa_ms}}
    level = LevelView(4, 16, (), metrics, None)
    return SimpleNamespace(levels=[level], level={4: level}.get)


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ((200.0, 300.0), (50.0, 750.0), True),  # 0.6 s of silence comes first, and TTFP alone gets better
        ((50.0, 750.0), (200.0, 300.0), True),
        ((200.0, 300.0), (150.0, 260.0), False),
        ((200.0, None), (50.0, 750.0), False),
    ],
)
def test_ttfa_has_a_row_where_it_tells_more_than_ttfp(before, after, shown):
    rows = shown_metrics([(run(*before), run(*after))], SimpleNamespace(tripped=False))
    assert ("ttfa_ms" in rows) is shown and "ttfp_ms" in rows
