"""The bundled reference server: Qwen3-TTS's talker, code predictor and Code2Wav in plain PyTorch."""
