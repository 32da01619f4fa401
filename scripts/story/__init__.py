"""A small language model of stories: the grammar that it learns from, its floats, its integers."""
