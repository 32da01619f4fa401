"""LSTM and GRU of float ONNX files as integer products and what floats make of their sums."""
