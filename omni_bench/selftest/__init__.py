"""Does omni-bench itself catch what it claims to catch? Injects the fault catalogue and prints what was found."""
