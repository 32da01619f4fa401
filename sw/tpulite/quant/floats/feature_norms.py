"""Normalizations over the pixels of channels or groups, as operators that integers have.

Mean and variance are global pools. Those of groups are gathered and spread over channels by
products, which are exact: a column has one weight or equal ones. What is normalized is divided
by its usual deviation, which does not change the result, so that all variances fit 8 bits.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from tpulite.frontend.onnx.read.attributes import attributes_of
from tpulite.quant.floats.affine import channel_conv, fold_behind
from tpulite.quant.floats.axes import Axes, add_constant
from tpulite.quant.floats.graph import Links, replace_node
from tpulite.quant.floats.observe import Feed, run_for

NORMS = ("InstanceNormalization", "GroupNormalization")
"""Operators that normalize pixels."""

_EPSILON = 1e-5
"""What InstanceNormalization adds to variances if a file does not say it."""

_RANKS = (3, 4)
"""Axes of a tensor with samples, channels, and one or two axes of pixels."""

_UNEVEN = 4.0
"""Ratio of the deviations of groups that is worth a product that makes them equal."""


@dataclass(frozen=True)
class _Norm:
    """A normalization of feature maps."""

    x: str
    y: str
    rank: int
    groups: int
    #: Ndarray, [C]. Factors and addends of channels.
    gamma: np.ndarray
    beta: np.ndarray
    epsilon: float  #: What is added to variances.
    #: What reads ``x`` and what writes ``y``.
    first: onnx.NodeProto
    last: onnx.NodeProto


def write_feature_norms(model: onnx.ModelProto, feeds: Sequence[Feed]) -> None:
    """Write normalizations over pixels as pools, sums and products.

    Parameters
    ----------
    model : ModelProto
        The network; changed in place. Operators that nothing reads any more stay.
    feeds : sequence of mapping of str to ndarray
        Samples, which tell the usual means and variances.
    """
    links = Links(model.graph)
    axes = Axes(model, links)
    found = (_find(node, links, axes) for node in model.graph.node)
    norms = [norm for norm in found if norm is not None]
    for norm, (mean, variance) in zip(norms, _moments(model, feeds, norms), strict=True):
        _Steps(model.graph, norm, mean, variance).write()
    if norms:
        del model.graph.value_info[:]


def _find(node: onnx.NodeProto, links: Links, axes: Axes) -> _Norm | None:
    """Return the normalization of which an operator is the heart."""
    gamma, beta = (links.constants.get(x) for x in [*node.input[1:], "", ""][:2])
    if node.op_type != "InstanceNormalization" or gamma is None or beta is None:
        return None
    first, last = node, node
    before, after = links.writer.get(node.input[0]), links.only_reader(node.output[0])
    if before is not None and after is not None and before.op_type == after.op_type == "Reshape":
        whole, again = axes.shape(before.input[0]), axes.shape(after.output[0])
        flat = axes.shape(node.input[0])
        if whole == again and whole[:1] == flat[:1]:
            first, last = before, after
    shape = axes.shape(first.input[0])
    if len(shape) not in _RANKS or 0 in shape or shape[1] % gamma.size:
        return None
    size = shape[1] // gamma.size
    factor, addend = (np.repeat(x.astype(np.float64), size) for x in (gamma, beta))
    for kind in ("Mul", "Add"):
        reader = links.only_reader(last.output[0])
        value = None if reader is None else _of_channels(reader, kind, shape, links)
        if reader is not None and value is not None:
            factor, addend = (
                (factor * value, addend * value) if kind == "Mul" else (factor, addend + value)
            )
            last = reader
    epsilon = float(attributes_of(node).get("epsilon", _EPSILON))
    x, y = first.input[0], last.output[0]
    return _Norm(x, y, len(shape), gamma.size, factor, addend, epsilon, first, last)


def _of_channels(
    node: onnx.NodeProto, kind: str, shape: Sequence[int], links: Links
) -> np.ndarray | None:
    """Return the constant with a number for each channel that an operator of a kind reads."""
    values = [links.constants[x] for x in node.input if x in links.constants]
    if node.op_type != kind or len(values) != 1:
        return None
    wanted = (1, shape[1], *(1,) * (len(shape) - 2))
    fits = values[0].size == shape[1] and values[0].shape == wanted[len(wanted) - values[0].ndim :]
    return values[0].ravel().astype(np.float64) if fits else None


def _moments(
    model: onnx.ModelProto, feeds: Sequence[Feed], norms: Sequence[_Norm]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the usual mean and variance of the groups of what is normalized: float64 [groups]."""
    names = dict.fromkeys(norm.x for norm in norms)
    sums = [(np.zeros(norm.groups), np.zeros(norm.groups)) for norm in norms]
    for values in run_for(names, model, feeds, "ENABLE_BASIC") if norms else ():
        for norm, (mean, variance) in zip(norms, sums, strict=True):
            value = values[norm.x].astype(np.float64)
            groups = value.reshape(len(value), norm.groups, -1)
            mean += groups.mean(axis=(0, 2)) / len(feeds)
            variance += groups.var(axis=2).mean(axis=0) / len(feeds)
    return sums


class _Steps:
    """The operators of one normalization.

    Parameters
    ----------
    graph : GraphProto
        What they are written in.
    norm : _Norm
        What they replace.
    mean, variance : ndarray, [groups]
        What is usual of the groups of what is normalized.
    """

    def __init__(
        self, graph: onnx.GraphProto, norm: _Norm, mean: np.ndarray, variance: np.ndarray
    ) -> None:
        self._graph, self._norm, self._mean = graph, norm, mean
        # Of a channel that is constant, too, the variance with epsilon becomes 1.
        self._divisor = np.sqrt(variance + norm.epsilon)
        self._divisor[self._divisor == 0] = 1
        self._pixels = (1,) * (norm.rank - 2)
        self._made: list[onnx.NodeProto] = []

    def write(self) -> None:
        """Put the operators in the place of the normalization."""
        norm = self._norm
        x = self._even()
        size = norm.gamma.size // norm.groups
        spread = np.kron(np.eye(norm.groups), np.ones((size, 1)))
        gather, epsilon = spread.T / size, norm.epsilon / self._divisor**2
        mean = self._node("mean", "GlobalAveragePool", x)
        if size > 1:
            mean = self._product("means", self._product("gathered", mean, gather), spread)
        centered = self._node("centered", "Sub", x, mean)
        square = self._node("square", "Mul", centered, centered)
        variance = self._node("variance", "GlobalAveragePool", square)
        if size > 1:
            variance = self._product("whole", variance, gather, epsilon)
        else:
            variance = self._node("whole", "Add", variance, self._along("epsilon", epsilon))
        root = self._node("root", "Reciprocal", self._node("deviation", "Sqrt", variance))
        if size > 1:
            root = self._product("roots", root, spread * norm.gamma[:, None])
        elif (norm.gamma != 1).any():
            root = self._node("roots", "Mul", root, self._along("gamma", norm.gamma))
        shifts = norm.beta.any()
        normal = self._node("normal", "Mul", centered, root, y="" if shifts else norm.y)
        if shifts:
            self._node("shifted", "Add", normal, self._along("beta", norm.beta), y=norm.y)
        replace_node(self._graph, norm.last, self._made)

    def _even(self) -> str:
        """Make the usual deviations of groups 1 and their means 0, if that is free or needed."""
        norm, links, y = self._norm, Links(self._graph), f"{self._norm.y}_even"
        size = norm.gamma.size // norm.groups
        factor = np.repeat(1 / self._divisor, size)
        addend = -np.repeat(self._mean, size) * factor
        alone = links.only_reader(norm.x) is norm.first
        if norm.first.op_type == "Reshape":
            alone &= links.only_reader(norm.first.output[0]) is not None
        if alone and fold_behind(self._graph, links.writer.get(norm.x), factor, addend, y):
            return y
        if self._divisor.max() <= _UNEVEN * self._divisor.min():
            self._divisor = np.ones(norm.groups)
            return norm.x
        self._made.append(channel_conv(self._graph, norm.x, y, factor, addend, norm.rank))
        return y

    def _node(self, what: str, operator: str, *inputs: str, y: str = "") -> str:
        name = y or f"{self._norm.y}_{what}"
        self._made.append(helper.make_node(operator, inputs, [name], name=f"{name}_{operator}"))
        return name

    def _product(self, what: str, x: str, matrix: np.ndarray, *biases: np.ndarray) -> str:
        """Multiply the channels of a pixel by a matrix."""
        weights = self._constant(f"{what}_weights", matrix.reshape(*matrix.shape, *self._pixels))
        return self._node(
            what, "Conv", x, weights, *(self._constant(f"{what}_bias", bias) for bias in biases)
        )

    def _along(self, what: str, value: np.ndarray) -> str:
        """Add a constant with a number for each channel."""
        return self._constant(what, value.reshape(1, -1, *self._pixels))

    def _constant(self, what: str, value: np.ndarray) -> str:
        return add_constant(self._graph, f"{self._norm.y}_{what}", value)
