"""Where activations and constants lie: in the unified buffer, or in DRAM."""
