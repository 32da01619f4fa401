"""Integers alone: how axes, kernels and buffers are cut, and what reads what."""
