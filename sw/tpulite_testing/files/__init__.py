"""Writers of small TFLite and ONNX files."""
