"""The nightly gate: one run against the history, integrity first, then speed."""
