"""The network in plain PyTorch: talker, code predictor, Code2Wav, their shapes and sampling."""
