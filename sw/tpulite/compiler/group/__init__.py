"""Which layers run together, slice by slice."""
