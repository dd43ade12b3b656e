"""Where the judge's weights come from, and the check of their hashes."""
