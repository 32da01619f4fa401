"""The NPU in a browser tab: the Verilated chip as WebAssembly, in one page of its own."""
