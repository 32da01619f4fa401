"""What tensors of a float network hold on samples."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx

from tpulite.frontend.onnx.library import expose, open_session
from tpulite.frontend.onnx.read.model import NUMERICS
from tpulite.quant.floats.graph import MOVING, Links
from tpulite.quant.floats.ranges import Histogram

Feed = Mapping[str, np.ndarray]
"""A sample: an array for each input."""

_BINS = 4096
_MOST = 1 << 14
"""Numbers of a tensor that are counted in each sample."""

_SCORES = 1 << 14
"""Scores before a softmax that are kept of each sample."""

_KEPT = 24
"""Samples of which scores are kept."""


@dataclass
class Observed:
    """What was seen."""

    #: All float tensors by name, those of bodies left out.
    tensors: dict[str, Histogram] = field(default_factory=dict)
    #: Rows before each softmax, by the name of its input.
    scores: dict[str, np.ndarray] = field(default_factory=dict)


def observe(
    model: onnx.ModelProto,
    feeds: Sequence[Feed],
    progress: Callable[[int, int], None] | None = None,
    *,
    live: bool = False,
) -> Observed:
    """Run a network twice on all samples: for the ends of its tensors, then for what is between.

    With ``live``, tensors that have a row for each token are looked at without those of padding.
    """
    mask = padding_input(model.graph) if live else None
    rng = np.random.default_rng(0)
    ends: dict[str, tuple[float, float]] = {}
    for values in run_all(model, feeds):
        for name, value in values.items():
            if value.dtype.kind == "f" and value.size:
                value = live_tokens(value, values, mask)
                low, high = _finite_ends(value)
                before = ends.get(name, (low, high))
                ends[name] = min(low, before[0]), max(high, before[1])
    counts = {name: np.zeros(_BINS) for name in ends}
    rows: dict[str, list[np.ndarray]] = {}
    softmaxes = {node.input[0] for node in model.graph.node if node.op_type == "Softmax"}
    for index, values in enumerate(run_all(model, feeds)):
        for name in ends:
            value, (low, high) = live_tokens(values[name], values, mask).ravel(), ends[name]
            if value.size > _MOST:
                stride = value.size // _MOST
                value = value[rng.integers(0, stride) :: stride]
            if high > low:
                counts[name] += _counts(value, low, high)
        for name in sorted(softmaxes & values.keys()) if index < _KEPT else ():
            scores = values[name].reshape(-1, values[name].shape[-1])
            wanted = max(1, _SCORES // scores.shape[1])
            rows.setdefault(name, []).append(scores[rng.integers(0, len(scores), wanted)])
        if progress is not None:
            progress(index + 1, len(feeds))
    seen = {name: Histogram(*ends[name], counts[name]) for name in ends}
    return Observed(seen, {name: np.concatenate(each) for name, each in rows.items()})


def run_all(model: onnx.ModelProto, feeds: Sequence[Feed]) -> Iterator[dict[str, np.ndarray]]:
    """Yield every tensor of a network for each sample."""
    computed = [name for node in model.graph.node for name in node.output if name]
    names = dict.fromkeys([*(value.name for value in model.graph.output), *computed])
    for feed, values in zip(feeds, run_for(names, model, feeds, "DISABLE_ALL"), strict=True):
        yield {**feed, **values}


def run_for(
    names: Iterable[str], model: onnx.ModelProto, feeds: Sequence[Feed], level: str
) -> Iterator[dict[str, np.ndarray]]:
    """Yield some tensors of a network, optimized as :func:`open_session` says, for each sample."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    expose(wide, names)
    session, names = open_session(wide.SerializeToString(), level), [*names]
    for feed in feeds:
        yield dict(zip(names, session.run(names, dict(feed)), strict=True))


def level_of(model: onnx.ModelProto) -> str:
    """Return the optimizations with which a file is judged.

    A file that names its numerics is judged operator by operator, each rounded where the file says
    it: so are the integers. ONNX Runtime's own integer softmax is far from both.
    """
    named = any(each.key == NUMERICS for each in model.metadata_props)
    return "DISABLE_ALL" if named else "ENABLE_ALL"


def _counts(value: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return how many finite numbers but zeros are in each bin."""
    value = value[(value != 0) & np.isfinite(value)].astype(np.float64)
    place = np.clip((value - low) / (high - low) * _BINS, 0, _BINS - 1).astype(np.int64)
    return np.bincount(place, minlength=_BINS)


def _finite_ends(value: np.ndarray) -> tuple[float, float]:
    """Return the smallest and largest number; infinite ones are the largest finite ones."""
    finite = np.nan_to_num(value)
    return float(finite.min()), float(finite.max())


_PRODUCTS = ("MatMul", "Gemm", "Einsum", "Conv")
_MASKS = {"Attention": 3, "MultiHeadAttention": 4, "GroupQueryAttention": 5}
"""Which input of an attention as one operator says which tokens are padding."""

_EMBEDDING_MASK = 7
"""Which input of EmbedLayerNormalization becomes its output of masks."""

_MASKED = 2
"""Axes of a mask: samples and tokens."""


def padding_input(graph: onnx.GraphProto) -> str | None:
    """Return the input that says which tokens are padding: masks of attention depend on it."""
    links = Links(graph)
    inputs = {
        value.name
        for value in graph.input
        if len(value.type.tensor_type.shape.dim) == _MASKED
        and value.type.tensor_type.elem_type != onnx.TensorProto.FLOAT
    }
    found: set[str] = set()
    for softmax in (node for node in graph.node if node.op_type == "Softmax"):
        node = links.writer.get(softmax.input[0])
        while node is not None and node.op_type in MOVING:
            node = links.writer.get(node.input[0])
        for name in node.input if node is not None and node.op_type in ("Add", "Where") else ():
            read, products = _sources(name, links)
            found |= set() if products else inputs & read
    for node in graph.node:
        for name in node.input[_MASKS.get(node.op_type, len(node.input)) :][:1]:
            found |= inputs & _sources(name, links)[0]
    return found.pop() if len(found) == 1 else None


def _sources(name: str, links: Links) -> tuple[set[str], bool]:
    """Return on whose numbers a tensor depends, and whether products are among them."""
    read, todo, products = {name}, [name], False
    while todo:
        node = links.writer.get(todo.pop())
        if node is not None and node.op_type not in ("Shape", "Size"):
            products |= node.op_type in _PRODUCTS
            inputs = list(node.input)
            if node.op_type == "EmbedLayerNormalization":
                inputs = inputs[_EMBEDDING_MASK : _EMBEDDING_MASK + 1]
            todo += [x for x in inputs if x not in read]
            read |= {*inputs}
    return read, products


def live_rows(value: np.ndarray, feed: Mapping[str, np.ndarray], mask: str | None) -> np.ndarray:
    """Return an output without the rows of padding, if it has a row for each token."""
    kept = None if mask is None else np.asarray(feed[mask])
    if kept is None or value.ndim <= _MASKED or value.shape[:_MASKED] != kept.shape:
        return value
    return value[kept != 0] if kept.any() else value


def live_tokens(value: np.ndarray, feed: Mapping[str, np.ndarray], mask: str | None) -> np.ndarray:
    """Return a tensor without the rows of padding, if the axis before its last one is tokens."""
    kept = None if mask is None else np.asarray(feed[mask]).reshape(-1) != 0
    if kept is None or not kept.any() or value.ndim < 2 or value.shape[-2] != kept.size:
        return value
    return value[..., kept, :]
