"""Which operators run where, and why others do not: what docs/operators.md is made of."""
