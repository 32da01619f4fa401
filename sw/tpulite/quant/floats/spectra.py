"""Products around magnitudes of spectra: 16 bits of what they read, and sums that are not rounded.

Quiet sounds are a hundredth of loud ones, and 8 bits have little of them. So a product whose
results are parts of magnitudes (roots of sums of squares), and one that reads magnitudes, becomes
two integer products with the same weights: of the upper and of the lower byte.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from tpulite.quant.floats.axes import drop_constants
from tpulite.quant.floats.blocks import magnitudes
from tpulite.quant.floats.expansion import Written
from tpulite.quant.floats.graph import MOVING, Links
from tpulite.quant.floats.products import Weights

_MOVES = MOVING | {"Pad", "Slice", "Split", "Concat", "Gather"}
_KINDS = {"Conv": "ConvInteger", "MatMul": "MatMulInteger"}
_SIGNED = 127
_HEADROOM = 2
"""How much louder than all samples a sound may be: one bit of the 16."""


@dataclass(frozen=True)
class Spectra:
    """What surrounds magnitudes; names of operators."""

    products: frozenset[str] = frozenset()
    moves: frozenset[str] = frozenset()  #: Between products and magnitudes, or before products.

    @property
    def inside(self) -> frozenset[str]:
        """Return all operators that ONNX Runtime's quantizer leaves alone."""
        return self.products | self.moves


def find_spectra(graph: onnx.GraphProto) -> Spectra:
    """Find products around magnitudes; all operators have names."""
    links = Links(graph)
    products: set[str] = set()
    moves: set[str] = set()
    for block in magnitudes(links):
        made = {name for node in block for name in node.output}
        read = {name for node in block for name in node.input} - made - links.constants.keys()
        for name in read:
            product, between = _before_moves(name, links)
            if product is not None and _is_wide(product, links):
                products.add(product.name)
                moves |= between | _before_moves(product.input[0], links)[1]
        for name in made:
            found, between = _behind_moves(name, links)
            products |= found
            moves |= between
    return Spectra(frozenset(products), frozenset(moves))


def _before_moves(name: str, links: Links) -> tuple[onnx.NodeProto | None, set[str]]:
    """Return what computes a tensor that is moved then, and the names of the moves."""
    moves: set[str] = set()
    while (node := links.writer.get(name)) is not None and node.op_type in _MOVES:
        moves.add(node.name)
        name = next((x for x in node.input if x and x not in links.constants), "")
    return node, moves


def _behind_moves(name: str, links: Links) -> tuple[set[str], set[str]]:
    """Return the names of products that read a tensor, and of the moves before them."""
    products: set[str] = set()
    moves: set[str] = set()
    for node in links.readers.get(name, []):
        if _is_wide(node, links):
            products.add(node.name)
        elif node.op_type in _MOVES:
            for each in node.output:
                found, between = _behind_moves(each, links)
                products |= found
                moves |= between | ({node.name} if found else set())
    return products, moves


def _is_wide(node: onnx.NodeProto, links: Links) -> bool:
    """Tell whether a product with constant weights can be two of integers."""
    return node.op_type in _KINDS and links.is_product(node)


def split_spectra(
    data: bytes, spectra: Spectra, largest: Mapping[str, float], rounding: Weights
) -> bytes:
    """Replace products by pairs of integer products, whose sums floats add.

    Parameters
    ----------
    data : bytes
        A file that ONNX Runtime's quantizer has written; these products are floats there.
    spectra : Spectra
        Which products.
    largest : mapping of str to float
        The largest magnitude of what each product reads, by names of products.
    rounding : Weights
        How weights become int8.

    Returns
    -------
    bytes
        The file.
    """
    if not spectra.products:
        return data
    model = onnx.load_model_from_string(data)
    graph, links = model.graph, Links(model.graph)
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        if node.name not in spectra.products:
            nodes.append(node)
            continue
        written = Written(node.name, 0)
        _Pair(node, links, written, rounding).write(largest[node.name])
        nodes += written.nodes
        graph.initializer.extend(written.constants)
    del graph.node[:]
    graph.node.extend(nodes)
    drop_constants(graph)
    return model.SerializeToString()


@dataclass(frozen=True, eq=False)
class _Pair:
    node: onnx.NodeProto
    links: Links
    written: Written
    rounding: Weights

    def write(self, largest: float) -> None:
        """Write the products of a node whose activations are at most so large in samples."""
        node, written, x = self.node, self.written, self.node.input[0]
        channels = 0 if node.op_type == "Conv" else 1
        weights, scales = self.rounding.rounded(self.links.constants[node.input[1]], channels)
        weight = written.constant("integers", weights)
        upper = np.float32(_HEADROOM * largest / _SIGNED or 1.0)
        zero = written.constant("zero_point", np.array(0, np.int8))
        parts = []
        for role, step in (("upper", upper), ("lower", np.float32(upper / (2 * _SIGNED)))):
            scale = written.constant(f"{role}_scale", step)
            integers = written.add("QuantizeLinear", [x, scale, zero], f"{role}/integers")
            sums = written.add(
                _KINDS[node.op_type], [integers, weight, zero], f"{role}/sums", **_attributes(node)
            )
            each = written.constant(f"{role}_scales", (scales * step).astype(np.float32))
            axis = 1 if node.op_type == "Conv" else -1
            parts.append(written.add("DequantizeLinear", [sums, each], role, axis=axis))
            if role == "upper":  # without DequantizeLinear: the pair is no rounding to take out
                floats = written.add("Cast", [integers], "floats", to=onnx.TensorProto.FLOAT)
                x = written.add("Sub", [x, written.add("Mul", [floats, scale], "real")], "rest")
        bias = node.input[2] if len(node.input) > 2 else ""
        y = written.add("Add", parts, "both", output="" if bias else node.output[0])
        if bias:
            rank = self.links.constants[node.input[1]].ndim
            value = self.links.constants[bias].reshape(-1, *[1] * (rank - 2))
            written.add("Add", [y, written.constant("bias", value)], "sum", output=node.output[0])


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {x.name: onnx.helper.get_attribute_value(x) for x in node.attribute}
