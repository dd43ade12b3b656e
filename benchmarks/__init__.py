"""Commands behind figures that no run of omni-bench produces: speed, error rates, agreement with other clients."""
