"""ONNX files as plain values."""
