"""Is the speech right? Judge and WER, signal checks, cross-talk, parity, voices."""
