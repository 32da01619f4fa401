"""Translation validation: whether a program computes its network, whatever the inputs are."""

from tpulite.golden.validation.validate import compare_layers, validate

__all__ = ["compare_layers", "validate"]
