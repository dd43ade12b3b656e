"""The nouns and their files: configuration, prompts, plans, timelines, levels, run folders.."""
