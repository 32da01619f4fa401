"""Programs for ranges of shapes: compiled once, bound to a shape in less than a millisecond.

A layer is compiled for all batches, heights and widths of a range. What depends on them is in
closed form: which strategy is the cheapest, how many tiles it has, how large they are, and every
field of every command. To bind a shape is to evaluate these forms; nothing is searched, scheduled
or allocated.
"""

from tpulite.dynamic.compile import DynamicProgram, compile_dynamic
from tpulite.dynamic.shapes import Shape, ShapeRange

__all__ = ["DynamicProgram", "Shape", "ShapeRange", "compile_dynamic"]
