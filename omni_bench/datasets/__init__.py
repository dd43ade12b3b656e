"""Prompts from Seed-TTS lists, Hugging Face data sets, random lengths, or the bundled set."""
