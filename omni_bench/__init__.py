"""omni-bench: benchmarking and regression testing for streaming speech servers."""

__version__ = "0.1.0"
