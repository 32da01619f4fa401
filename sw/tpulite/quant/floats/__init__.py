"""Float ONNX networks on their way to int8: what is observed, rewritten and left in floats."""
