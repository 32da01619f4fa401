"""Blocks that exporters write with several operators: normalizations, magnitudes and GELU.

Only what enters and what leaves a block is rounded to 8 bits. A variance or a cube between them
would lose everything. Sums that only normalizations read are parts of them: a channel of such a
residual connection may be a hundred times as large as the others.
"""

from collections.abc import Collection, Iterator

import onnx

from tpulite.quant.floats.graph import MOVING, Links, is_square

_ROOTS = ("Sqrt", "Reciprocal", "Pow")
_POWERS = (-0.5, 0.5)
_STATISTICS = frozenset(
    {"Add", "Max", "Clip", "Sub", "Mul", "Div", "Pow", "Cast", "ReduceMean", "ReduceSum"}
    | {"ReduceSumSquare", "ReduceL2", "Abs", *MOVING}
)
_ARITHMETIC = frozenset({"Add", "Sub", "Mul", "Div", "Reciprocal", "Cast", "Pow", "Neg", *MOVING})
_CURVES = ("Erf", "Tanh")
_NORMALIZATIONS = frozenset(
    {"LayerNormalization", "InstanceNormalization", "GroupNormalization", "LpNormalization"}
    | {"MeanVarianceNormalization", "RMSNormalization"}
)
_VIEWS = frozenset({"Slice", "Split", *MOVING})
_POOLS = ("GlobalMaxPool", "GlobalAveragePool", "ReduceMax", "ReduceMean")
_MOST = 16
"""Operators of a block on one side of its root; exporters write a normalization with nine."""


def inside_blocks(graph: onnx.GraphProto) -> frozenset[str]:
    """Return the names of the operators of which blocks consist; all operators have names."""
    links = Links(graph)
    found: set[str] = set()
    for node in graph.node:
        if node.op_type in _NORMALIZATIONS:
            found.add(node.name)
        elif node.op_type in _ROOTS and _is_root(node, links):
            found |= _normalization(node, links)
        elif node.op_type == "Sqrt":
            found |= _magnitude(node, links)
        elif node.op_type == "Div":
            found |= _softmax(node, links)
        elif node.op_type in _CURVES:
            found |= _curve(node, links)
    return frozenset(_with_sums(found, links))


def tables_inside(graph: onnx.GraphProto, inside: Collection[str]) -> frozenset[str]:
    """Return the operators of curves behind which numbers are rounded: tables, as Gelu itself is.

    Parameters
    ----------
    graph : GraphProto
        A network; all operators have names.
    inside : collection of str
        Names of operators that stay in floats.
    """
    links = Links(graph)
    found: set[str] = set()
    for node in graph.node:
        names = _curve(node, links) if node.op_type in _CURVES else set()
        made = [y for each in graph.node if each.name in names for y in each.output]
        readers = {x.name for y in made for x in links.readers.get(y, [])}
        if not (readers - names) & {*inside}:
            found |= names
    return frozenset(found)


def magnitudes(links: Links) -> Iterator[list[onnx.NodeProto]]:
    """Yield the operators of each root of a sum of squares, as of real and imaginary parts."""
    for node in links.graph.node:
        names = _magnitude(node, links) if node.op_type == "Sqrt" else set()
        if names:
            yield [each for each in links.graph.node if each.name in names]


def _with_sums(inside: set[str], links: Links) -> set[str]:
    """Return operators with the sums, views and pools between them that nothing else reads."""
    found = set(inside)
    for node in reversed(links.graph.node):
        before = links.writer.get(node.input[0]) if node.op_type in _POOLS else None
        between = node.op_type in ("Add", *_VIEWS) or (before and before.name in found)
        if between and not links.outputs & {*node.output}:
            readers = [each for name in node.output for each in links.readers.get(name, [])]
            if readers and all(each.name in found for each in readers):
                found.add(node.name)
    return found


def _magnitude(root: onnx.NodeProto, links: Links) -> set[str]:
    """Return the root of a sum of squares, as that of a real and an imaginary part."""
    found, todo, squares = {root.name}, [root.input[0]], 0
    while todo:
        name = todo.pop()
        node = links.writer.get(name)
        if name in links.constants:
            continue
        if node is None or len(found) > _MOST:
            return set()
        found.add(node.name)
        if is_square(node, links):
            squares += 1
        elif node.op_type in ("Add", "Max", "Clip", *MOVING):
            todo += [x for x in node.input if x]
        else:
            return set()
    return found if squares > 1 else set()


def _softmax(division: onnx.NodeProto, links: Links) -> set[str]:
    """Return a softmax that is written as powers over their sum."""
    power = links.writer.get(division.input[0])
    below = _chain(division.input[1], links, MOVING)
    total = links.writer.get(below[-1].input[0] if below else division.input[1])
    if power is None or total is None or total.op_type != "ReduceSum":
        return set()
    if power.op_type != "Exp" or total.input[0] != power.output[0]:
        return set()
    found = {division.name, power.name, total.name, *(each.name for each in below)}
    difference = links.writer.get(power.input[0])
    if difference is None or difference.op_type != "Sub":
        return found
    above = _chain(difference.input[1], links, {"Max", "ReduceMax", *MOVING})
    if any(each.op_type == "ReduceMax" for each in above):
        found |= {difference.name, *(each.name for each in above)}
    return found


def _chain(name: str, links: Links, kinds: Collection[str]) -> list[onnx.NodeProto]:
    """Return operators of some kinds that lead to a tensor, the last first."""
    found: list[onnx.NodeProto] = []
    while (node := links.writer.get(name)) is not None and node.op_type in kinds:
        found.append(node)
        if node.op_type == "ReduceMax":
            break
        name = next((x for x in node.input if x not in links.constants), "")
    return found


def _is_root(node: onnx.NodeProto, links: Links) -> bool:
    """Tell whether an operator computes the root of a statistic."""
    if node.op_type == "Pow" and links.scalar(node.input[1]) not in _POWERS:
        return False
    return any(x.op_type.startswith("Reduce") for x in _statistic(node.input[0], links))


def _statistic(name: str, links: Links) -> list[onnx.NodeProto]:
    """Return the operators of a statistic: back to what is reduced, and what that differs by."""
    found: list[onnx.NodeProto] = []
    while (node := links.writer.get(name)) is not None and len(found) < _MOST:
        if node.op_type not in _STATISTICS:
            break
        found.append(node)
        if node.op_type.startswith("Reduce"):
            return found + list(_reduced(node.input[0], links))
        variables = [x for x in node.input if x and x not in links.constants]
        if node.op_type == "Sub" and len(variables) == 2:  # a mean of squares, the mean's square
            sides = [_statistic(x, links) for x in variables]
            return [*found, *sides[0], *sides[1]] if all(sides) else []
        if len(set(variables)) != 1:
            break
        name = variables[0]
    return []


def _reduced(name: str, links: Links) -> Iterator[onnx.NodeProto]:
    """Yield the square that is reduced, and the difference from a mean that is squared."""
    square = links.writer.get(name)
    if square is None or not (square.op_type == "Abs" or is_square(square, links)):
        return
    yield square
    node = links.writer.get(square.input[0])
    while node is not None and node.op_type == "Cast":
        yield node
        node = links.writer.get(node.input[0])
    if node is not None and node.op_type == "Sub":
        mean = links.writer.get(node.input[1])
        if mean is not None and mean.op_type in ("ReduceMean", "ReduceSum", "Mul", "Div"):
            yield from (node, mean)


def _normalization(root: onnx.NodeProto, links: Links) -> set[str]:
    """Return a normalization around a root: statistics before it, arithmetic behind."""
    statistic = _statistic(root.input[0], links)
    made = {name for node in (root, *statistic) for name in node.output}
    sources = {name for node in statistic for name in node.input} - made
    return {node.name for node in (root, *statistic)} | _behind(root, made, sources, links)


def _behind(
    start: onnx.NodeProto, made: set[str], sources: Collection[str], links: Links
) -> set[str]:
    """Return the arithmetic behind an operator that needs only constants, the block and its input.

    The input itself may be multiplied or differ from something, but not be added: a sum with it is
    a residual connection, which is no part of the block.
    """
    found: set[str] = set()
    todo = [*start.output, *made]
    while todo and len(found) < _MOST:
        for node in links.readers.get(todo.pop(0), []):
            if node.name in found or node.output[0] in made or node.op_type not in _ARITHMETIC:
                continue
            allowed = made | ({*sources} if node.op_type != "Add" else set())
            if all(x in allowed or x in links.constants for x in node.input if x):
                found.add(node.name)
                made.update(node.output)
                todo += node.output
    return found


def _curve(curve: onnx.NodeProto, links: Links) -> set[str]:
    """Return GELU around its curve; nothing if the curve is an activation of its own."""
    inside: list[onnx.NodeProto] = [curve]
    made = set(curve.output)
    front = {curve.input[0]}
    source = _source(curve, links)
    if source is None:
        return set()
    while front:
        name = front.pop()
        node = links.writer.get(name)
        if name == source or node is None or node in inside:
            continue
        inside.append(node)
        made.update(node.output)
        front |= {x for x in node.input if x and x not in links.constants}
    halves = {
        node.output[0]: node.name
        for node in links.readers[source]
        if node.op_type in ("Mul", "Div") and any(links.scalar(x) is not None for x in node.input)
    }
    behind = _behind(curve, made, {source, *halves}, links)
    read = {x for node in links.graph.node if node.name in behind for x in node.input}
    if not read & {source, *halves}:
        return set()
    return {node.name for node in inside} | behind | {halves[x] for x in read & {*halves}}


def _source(curve: onnx.NodeProto, links: Links) -> str | None:
    """Return the one tensor from which arithmetic with constants leads to a curve."""
    name = curve.input[0]
    for _ in range(_MOST):
        node = links.writer.get(name)
        if node is None or node.op_type not in ("Mul", "Div", "Add", "Pow"):
            return name
        variables = {x for x in node.input if x not in links.constants}
        if len(variables) == 1:
            if not all(x in variables or links.scalar(x) is not None for x in node.input):
                return name
            name = variables.pop()
            continue
        ends = {_power_of(x, links) for x in variables}
        if len(ends) != 1:
            return name
        return ends.pop()
    return None


def _power_of(name: str, links: Links) -> str:
    """Return the tensor of which another is a power with factors."""
    for _ in range(_MOST):
        node = links.writer.get(name)
        if node is None or node.op_type not in ("Mul", "Pow"):
            return name
        variables = {x for x in node.input if links.scalar(x) is None}
        if len(variables) == 2:
            variables = {_power_of(x, links) for x in variables}
        if len(variables) != 1:
            return name
        name = variables.pop()
    return name
