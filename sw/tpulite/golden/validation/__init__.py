"""Translation validation: whether a program computes its network, whatever the inputs are."""

from tpulite.golden.validation.validate import validate

__all__ = ["validate"]
