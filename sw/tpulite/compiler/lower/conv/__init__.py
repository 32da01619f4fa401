"""Convolutions and dense layers on the systolic array."""
