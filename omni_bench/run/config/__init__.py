"""From the command line to a checked configuration."""
