"""A before/after study: interleaved runs with fresh servers, from the command line's words to a comparison."""
