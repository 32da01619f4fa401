"""Which inputs of products of a file come together: sums over samples."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from tpulite.frontend.onnx.library import expose, open_session
from tpulite.frontend.onnx.read.attributes import attributes_of
from tpulite.quant.floats.observe import Feed, live_tokens, padding_input

_ROWS = 64
"""Outputs of a sample whose inputs count."""

_AT_ONCE = 512
"""Outputs that are multiplied at once, or as many as inputs: adding large matrices takes time."""

_MOST_COLUMNS = 4608
"""Inputs of an output, 512 channels of 3x3; of more the moments would take minutes."""


@dataclass(frozen=True)
class Multiplied:
    """A product of a file with constant weights."""

    node: onnx.NodeProto  #: Conv, Gemm or MatMul, or an operator of integers.
    weight: str  #: Name of the weights, by which moments are called.
    shape: tuple[int, ...]  #: Extents of the weights.
    zero: float = 0.0  #: Zero point of the activations.

    @property
    def is_conv(self) -> bool:
        """Whether the activations have axes of space."""
        return self.node.op_type.startswith("Conv")

    @property
    def groups(self) -> int:
        """Into how many groups the outputs are divided, each with inputs of its own."""
        return attributes_of(self.node).get("group", 1) if self.is_conv else 1

    @property
    def transposed(self) -> bool:
        """Whether outputs are the last axis of the weights."""
        dense = self.node.op_type == "Gemm" and attributes_of(self.node).get("transB", 0)
        return not (self.is_conv or dense)

    @property
    def columns(self) -> int:
        """Inputs of an output."""
        return self.shape[0] if self.transposed else int(np.prod(self.shape[1:]))

    def matrix(self, values: np.ndarray) -> np.ndarray:
        """Return weights as [outputs, columns]."""
        return values.T if self.transposed else values.reshape(len(values), -1)

    def from_matrix(self, rows: np.ndarray) -> np.ndarray:
        """Return weights of the shape that the node reads."""
        return rows.T if self.transposed else rows.reshape(self.shape)

    def inputs(self, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return what some outputs read, float64 [groups, outputs, columns]."""
        if not self.is_conv:
            x = x.T if attributes_of(self.node).get("transA", 0) else x
            rows = x.reshape(-1, x.shape[-1])
            rows = rows[_some(len(rows), rng)]
        else:
            windows = _windows(x, self.shape[2:], attributes_of(self.node), self.zero)
            axes = len(self.shape) - 2
            places = x.shape[0], *windows.shape[2 : 2 + axes]
            sample, *place = np.unravel_index(_some(int(np.prod(places)), rng), places)
            rows = windows[(sample, slice(None), *place)]
        rows = rows.reshape(len(rows), self.groups, -1).astype(np.float64) - self.zero
        return rows.transpose(1, 0, 2)


def moments_of(
    model: onnx.ModelProto, products: Sequence[Multiplied], feeds: Sequence[Feed]
) -> dict[str, np.ndarray]:
    """Run a file on samples for sums of products of any two inputs of an output.

    Padding of texts does not count.

    Parameters
    ----------
    model : ModelProto
        What is run, with its roundings.
    products : sequence of Multiplied
        Its products. Those that share weights are added up. Those with very many inputs are left
        out, and weights that one product transposes or divides into groups and another does not.
    feeds : sequence of mapping of str to ndarray
        Samples.

    Returns
    -------
    mapping of str to ndarray
        By names of weights: float64, [groups, columns, columns].
    """
    forms = {(x.weight, x.groups, x.transposed) for x in products}
    read_as = Counter(weight for weight, *_ in forms)
    products = [x for x in products if x.columns <= _MOST_COLUMNS and read_as[x.weight] == 1]
    read = list(dict.fromkeys(each.node.input[0] for each in products))
    found: dict[str, np.ndarray] = {}
    rows: dict[str, list[np.ndarray]] = defaultdict(list)
    mask, rng = padding_input(model.graph), np.random.default_rng(0)
    for values in _run(model, read, feeds) if products else ():
        for each in products:
            tensor = live_tokens(values[each.node.input[0]], values, mask)
            rows[each.weight].append(each.inputs(tensor, rng))
            count = sum(x.shape[1] for x in rows[each.weight])
            if count >= min(_AT_ONCE, each.columns):
                _add(found, each.weight, rows.pop(each.weight))
    for weight, last in rows.items():
        _add(found, weight, last)
    return found


def _add(found: dict[str, np.ndarray], weight: str, inputs: Sequence[np.ndarray]) -> None:
    """Add the products of any two inputs."""
    rows = np.concatenate(inputs, axis=1)
    sums = rows.transpose(0, 2, 1) @ rows
    if weight in found:
        found[weight] += sums
    else:
        found[weight] = sums


def _run(
    model: onnx.ModelProto, names: Sequence[str], feeds: Iterable[Feed]
) -> Iterable[Mapping[str, np.ndarray]]:
    """Yield some tensors and the inputs of a file for each sample."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    given = {value.name for value in model.graph.input}
    names = [name for name in names if name not in given]
    expose(wide, names)
    session = open_session(wide.SerializeToString(), "DISABLE_ALL")
    for feed in feeds:
        values = session.run(names, dict(feed)) if names else []
        yield {**feed, **dict(zip(names, values, strict=True))}


def _some(count: int, rng: np.random.Generator) -> np.ndarray:
    """Return indices of some of so many outputs."""
    return rng.permutation(count)[:_ROWS]


def _windows(
    x: np.ndarray, kernel: Sequence[int], fields: Mapping[str, object], zero: float
) -> np.ndarray:
    """Return what each output of a convolution reads, [samples, channels, *places, *kernel]."""
    ones = [1] * len(kernel)
    steps, gaps = (np.array(fields.get(x, ones)) for x in ("strides", "dilations"))
    spans = (np.array(kernel) - 1) * gaps + 1
    pads = np.array(fields.get("pads", [0] * 2 * len(kernel))).reshape(2, -1)
    auto = fields.get("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        extents = np.array(x.shape[2:])
        both = np.maximum((-(-extents // steps) - 1) * steps + spans - extents, 0)
        less, more = both // 2, both - both // 2
        pads = np.stack([less, more] if auto == "SAME_UPPER" else [more, less])
    around = [(0, 0), (0, 0), *map(tuple, pads.T)]
    x = np.pad(x, around, constant_values=np.asarray(zero, x.dtype))
    axes = tuple(range(2, x.ndim))
    windows = np.lib.stride_tricks.sliding_window_view(x, tuple(spans), axes)
    places = (slice(None, None, int(step)) for step in steps)
    taps = (slice(None, None, int(gap)) for gap in gaps)
    return windows[(slice(None), slice(None), *places, *taps)]
