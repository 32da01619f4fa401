"""From DequantizeLinear and QuantizeLinear to quantized nodes."""
