"""From the order of axes of ONNX to channels last."""
