"""LSTM, GRU and RNN of float ONNX files as integer products, and float operators on their sums."""
