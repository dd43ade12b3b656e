"""What every test may rely on."""

from __future__ import annotations

import signal

# A shell that starts a job in the background makes it ignore SIGINT, and so would every child of
# ours: tests that press Ctrl-C would wait for something that cannot happen.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
