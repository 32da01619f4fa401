"""Layouts of tensors in memory."""
