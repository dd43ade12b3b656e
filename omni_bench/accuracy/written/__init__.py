"""One form for text and transcript: characters, numbers, times, units, abbreviations, spelling."""
