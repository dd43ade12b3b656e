"""Does a voice stay the same? (``checks.speaker_similarity``)"""
