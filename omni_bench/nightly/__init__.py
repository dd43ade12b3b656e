"""The nightly job: the history of many runs, and the gate that judges one by it."""
