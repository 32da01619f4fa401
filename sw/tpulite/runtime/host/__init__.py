"""Operators that the host computes, in numpy, between the machine's segments."""
