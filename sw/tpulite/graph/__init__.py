"""Quantized networks: what the compiler starts from."""
