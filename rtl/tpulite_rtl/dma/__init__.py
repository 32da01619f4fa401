"""DMA engines between DRAM and the unified buffer."""
