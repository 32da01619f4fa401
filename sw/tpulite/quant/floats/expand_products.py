"""Products and curves that ONNX Runtime joins with what is around them, apart again."""

import math

import numpy as np

from tpulite.frontend.onnx.library import CONTRIBUTED
from tpulite.frontend.onnx.read.expand import ACTIVATIONS, activation_numbers
from tpulite.quant.floats.expansion import Expansion, Rules

_CUBE = 0.044715
"""Factor of the cube in GELU by tanh."""


def _quick_gelu(e: Expansion) -> bool:
    """Multiply with the sigmoid of a multiple; of alpha 1 it is SiLU."""
    x, alpha = e.input(0), float(e.flags.get("alpha", 1.702))
    inner = x if alpha == 1 else e.add("Mul", x, e.constant(np.float32(alpha)))
    e.add("Mul", x, e.add("Sigmoid", inner), y=e.node.output[0])
    return True


def _gelu(e: Expansion) -> bool:
    """Write GELU by erf, perhaps of a sum: x, bias."""
    x = e.add("Add", e.input(0), e.input(1)) if e.input(1) else e.input(0)
    erf = e.add("Erf", e.add("Div", x, e.constant(np.float32(math.sqrt(2)))))
    _multiply_halves(e, x, erf)
    return True


def _fast_gelu(e: Expansion) -> bool:
    """Write GELU by tanh, perhaps of a sum: x, bias."""
    x = e.add("Add", e.input(0), e.input(1)) if e.input(1) else e.input(0)
    cube = e.add("Mul", e.add("Pow", x, e.constant(np.float32(3))), e.constant(np.float32(_CUBE)))
    root = e.constant(np.float32(math.sqrt(2 / math.pi)))
    _multiply_halves(e, x, e.add("Tanh", e.add("Mul", e.add("Add", x, cube), root)))
    return True


def _multiply_halves(e: Expansion, x: str, curve: str) -> None:
    above = e.add("Add", curve, e.constant(np.float32(1)))
    y = e.add("Mul", x, above)
    e.add("Mul", y, e.constant(np.float32(0.5)), y=e.node.output[0])


def _matmul(e: Expansion) -> bool:
    """Multiply matrices, perhaps transposed, with a factor."""
    flags = e.flags
    if flags.get("transBatchA", 0) or flags.get("transBatchB", 0):
        return False
    names = []
    for index, each in enumerate(("transA", "transB")):
        name, rank = e.input(index), len(e.shape(index))
        if flags.get(each, 0):
            if rank < 2:
                return False
            name = e.add("Transpose", name, perm=[*range(rank - 2), rank - 1, rank - 2])
        names.append(name)
    alpha = flags.get("alpha", 1.0)
    if alpha == 1:
        e.add("MatMul", *names, y=e.node.output[0])
    else:
        factor = e.constant(np.float32(alpha))
        e.add("Mul", e.add("MatMul", *names), factor, y=e.node.output[0])
    return True


def _fused(e: Expansion) -> bool:
    """Write Conv or Gemm, what FusedConv adds to it, and an activation."""
    attributes, y = e.flags, e.node.output[0]
    activation = attributes.get("activation", "")
    if activation and activation not in (*ACTIVATIONS, "Clip"):
        return False
    given = activation_numbers(attributes)
    flags = {name: x for name, x in attributes.items() if not name.startswith("activation")}
    added = e.input(3)
    op = e.node.op_type.removeprefix("Fused")
    inputs = [x for x in e.node.input[:3] if x]
    x = e.add(op, *inputs, y="" if activation or added else y, **flags)
    if added:
        x = e.add("Add", x, added, y="" if activation else y)
    if activation == "Clip":
        e.add("Clip", x, *(e.constant(np.float32(end)) for end in given), y=y)
    elif activation:
        names = ACTIVATIONS[activation]
        e.add(activation, x, y=y, **dict(zip(names, given, strict=False)))
    return True


PRODUCTS: Rules = {
    (CONTRIBUTED, "BiasGelu"): _gelu,
    (CONTRIBUTED, "FastGelu"): _fast_gelu,
    (CONTRIBUTED, "FusedConv"): _fused,
    (CONTRIBUTED, "FusedGemm"): _fused,
    (CONTRIBUTED, "FusedMatMul"): _matmul,
    (CONTRIBUTED, "Gelu"): _gelu,
    (CONTRIBUTED, "QuickGelu"): _quick_gelu,
}


def _einsum(e: Expansion) -> bool:
    """Write a MatMul between transposes.

    One letter is summed over, one is the rows', one the columns'; the others are of all three
    tensors. What has no rows or columns, more of them, or an ellipsis stays.
    """
    equation = e.flags.get("equation", b"")
    text = equation.decode() if isinstance(equation, bytes) else str(equation)
    terms = text.replace(" ", "").replace("->", ",").split(",")
    if len(terms) != 3 or len(e.node.input) != 2 or not "".join(terms).isalpha():
        return False
    first, second, result = terms
    if any(len({*term}) < len(term) for term in terms):
        return False
    summed = [x for x in first if x in second and x not in result]
    rows, columns = ([x for x in a if x not in b] for a, b in ((first, second), (second, first)))
    batch = [x for x in first if x in second and x in result]
    if not len(summed) == len(rows) == len(columns) == 1:
        return False
    if {*result} != {*batch, *rows, *columns}:
        return False
    a = _ordered(e, e.input(0), first, [*batch, *rows, *summed])
    b = _ordered(e, e.input(1), second, [*batch, *summed, *columns])
    found = [*batch, *rows, *columns]
    if found == [*result]:
        e.add("MatMul", a, b, y=e.node.output[0])
    else:
        perm = [found.index(x) for x in result]
        e.add("Transpose", e.add("MatMul", a, b), y=e.node.output[0], perm=perm)
    return True


def _ordered(e: Expansion, name: str, letters: str, wanted: list[str]) -> str:
    """Return a tensor with its axes in another order."""
    if [*letters] == wanted:
        return name
    return e.add("Transpose", name, perm=[letters.index(x) for x in wanted])


EINSUM: Rules = {("", "Einsum"): _einsum}
