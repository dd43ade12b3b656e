"""One run from configuration to report: the order of the stages, and what happens when one fails."""
