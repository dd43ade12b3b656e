"""What headers say of a payload."""

from __future__ import annotations

import pytest

from omni_bench.load.clients.responses import parse_content_type


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("audio/pcm", ("audio/pcm", None, None)),
        ("Audio/PCM; Rate=16000", ("audio/pcm", 16_000, None)),
        ('audio/pcm; sample_rate="24000"; channels=1', ("audio/pcm", 24_000, None)),
    ],
)
def test_content_types(value, expected):
    assert parse_content_type(value) == expected


@pytest.mark.parametrize("value", ["audio/pcm; rate=fast", "audio/pcm; rate=1", "audio/pcm; channels=2"])
def test_content_types_that_cannot_be(value):
    assert parse_content_type(value)[2] is not None
