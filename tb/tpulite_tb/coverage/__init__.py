"""Coverage: what of the RTL the benches reach, and which combinations of values."""
