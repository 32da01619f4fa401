"""Einsum of two tensors that is a product of matrices, as attention is often written."""

from tpulite.quant.floats.expansion import Expansion, Rules


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
