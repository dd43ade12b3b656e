"""The judge: Whisper engines, and the processes that transcribe clips."""
