"""Networks for ranges of shapes: compiled once, bound to a shape in milliseconds.

A network is compiled for all batches, heights and widths of a range. What depends on them is in
closed form: which strategy of a layer is the cheapest, how many tiles it has, how large they are,
and every field of every command. To bind a shape is to evaluate these forms; nothing is searched
or scheduled.
"""

from tpulite.compiler.bind.compile import RangeProgram, compile_range
from tpulite.compiler.bind.cores import CoreProgram, bind_cores
from tpulite.compiler.bind.network_plan import LayerPlan, NetworkPlan
from tpulite.compiler.operators.operator import Shape, ShapeRange

__all__ = [
    "CoreProgram",
    "LayerPlan",
    "NetworkPlan",
    "RangeProgram",
    "Shape",
    "ShapeRange",
    "bind_cores",
    "compile_range",
]
