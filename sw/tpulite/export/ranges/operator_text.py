"""What C must know of an operator before its shape is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpulite.compiler.geometry.axis import Axis1D
from tpulite.compiler.geometry.closed_forms import Number
from tpulite.compiler.operators.shapes import Shape
from tpulite.compiler.plan.strategy import Strategy
from tpulite.export.c_text import array


@dataclass(frozen=True)
class OperatorText:
    """An operator in C."""

    function: str  #: The function that says its commands.
    facts: str  #: Definitions, of which ``facts`` is the last.
    kinds: Mapping[str, int]  #: Number of each kind of strategy.
    constants_most: int  #: Most bytes of its constants.
    #: Returns a number that the commands of a strategy for a shape do not exceed, in closed form.
    commands: Callable[[Strategy, Shape], Number]
    #: How often the tiles that a strategy counts as slabs are computed: for each channel block.
    passes: int = 1
    plane: bool = False  #: Whether batch, height and width count as their product alone.


def bytes_text(name: str, data: bytes) -> str:
    """Return the definition of a constant array of bytes."""
    return "static " + array("uint8_t", name, np.frombuffer(data, np.uint8)) + "\n"


def axis_fields(axis: Axis1D) -> dict[str, Any]:
    """Return the fields of a ``tpulite_axis``."""
    names = "kernel", "stride", "dilation", "before", "after"
    return {name: getattr(axis, name) for name in names}
