"""Requests to frames to audio: the waiting queue, slots, the decode step, Code2Wav's worker."""
