"""From a quantized graph to integer layers."""
