"""Layers as strategies in closed form, and the commands of each at any shape."""
