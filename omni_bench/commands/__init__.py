"""The subcommands of ``omni-bench``, one module each, imported only when used."""
