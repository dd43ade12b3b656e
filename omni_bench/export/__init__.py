"""Stored runs, studies and histories for other programs: pandas frames, CSV, results of vLLM's bench, MLflow."""
