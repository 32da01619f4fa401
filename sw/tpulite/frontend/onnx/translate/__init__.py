"""From operators of ONNX to nodes of a graph."""
