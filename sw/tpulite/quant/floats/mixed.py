"""Which activations stay in floats, because 8 bits of them lose too much of an output."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import TypeVar

import numpy as np
import onnx

from tpulite.frontend.onnx.library import open_session
from tpulite.quant.floats.graph import ROUNDED
from tpulite.quant.floats.observe import Feed, level_of
from tpulite.quant.floats.padding import live_rows, padding_input
from tpulite.quant.floats.switches import Switches, remove_roundings
from tpulite.quant.quality import OutputSums

_JUDGED, _SEARCHED, _WEIGHED = 32, 8, 2
"""Samples on which a file is judged, on which roundings are tried, and on which each alone is."""

_KEY = "tpulite.floats"
"""Entry of a file's metadata: activations that stayed in floats, one a line."""

Outputs = Mapping[str, np.ndarray]

_Sample = TypeVar("_Sample")


class Judge:
    """Outputs of the float network on a few samples, which those of others are compared with.

    Parameters
    ----------
    model : ModelProto
        The float network.
    feeds : sequence of mapping of str to ndarray
        All samples.
    """

    def __init__(self, model: onnx.ModelProto, feeds: Sequence[Feed]) -> None:
        self.feeds = spread(feeds, _JUDGED)
        self._mask = padding_input(model.graph)
        run = _opened(model.SerializeToString())
        self._wanted = [run(feed) for feed in self.feeds]

    def fewer(self, most: int) -> "Judge":
        """Return a judge with at most so many of the samples."""
        other = copy(self)
        other.feeds, other._wanted = spread(self.feeds, most), spread(self._wanted, most)
        return other

    def judge(self, found: Iterable[Outputs]) -> tuple[float, float]:
        """Return the least cosine and the least signal to noise of all outputs."""
        sums = {name: OutputSums() for name in self._wanted[0]}
        for feed, wanted, other in zip(self.feeds, self._wanted, found, strict=True):
            for name, each in sums.items():
                real, value = (live_rows(x[name], feed, self._mask) for x in (wanted, other))
                each.add(real, value, classes=False)
        results = [each.result(name) for name, each in sums.items()]
        return min(x.cosine for x in results), min(x.decibels for x in results)

    def of_file(self, data: bytes) -> tuple[float, float]:
        """Judge a file."""
        return self.judge(map(_opened(data), self.feeds))


def leave_floats(data: bytes, judge: Judge, least: float) -> bytes:
    """Leave the activations that lose most in floats, as few as the outputs need.

    Parameters
    ----------
    data : bytes
        The QDQ file; it keeps Relu and Clip, for no rounding may clip in their place.
    judge : Judge
        What the outputs should be.
    least : float
        Cosine that each output must have.

    Returns
    -------
    bytes
        The file; its metadata name what stayed in floats.
    """
    switches = Switches(data)
    costs = switches.costs(spread(judge.feeds, _WEIGHED))
    order = sorted(costs, key=lambda group: -costs[group])
    judge = judge.fewer(_SEARCHED)
    few, many = 0, len(order)
    while few < many:
        middle = (few + many) // 2
        rounded = order[middle:]
        found = (switches.run(feed, rounded) for feed in judge.feeds)
        if judge.judge(found)[0] >= least:
            many = middle
        else:
            few = middle + 1
    return _marked(data, order[:few])


def floats_of(model: onnx.ModelProto) -> tuple[str, ...]:
    """Return the activations that :func:`leave_floats` left."""
    found = next((x.value for x in model.metadata_props if x.key == _KEY), "")
    return tuple(found.splitlines())


def _marked(data: bytes, groups: Sequence[str]) -> bytes:
    """Return a file without some roundings, named in its metadata."""
    before = onnx.load_model_from_string(data)
    chosen = {*groups}
    names = (
        node.input[0].removesuffix(ROUNDED)
        for node in before.graph.node
        if node.op_type == "QuantizeLinear" and node.input[1] in chosen
    )
    model = onnx.load_model_from_string(remove_roundings(data, groups))
    entry = model.metadata_props.add()
    entry.key, entry.value = _KEY, "\n".join(names)
    return model.SerializeToString()


def spread(feeds: Sequence[_Sample], most: int) -> list[_Sample]:
    """Return at most so many samples, evenly spread."""
    places = np.linspace(0, len(feeds) - 1, min(most, len(feeds)))
    return [feeds[int(place)] for place in places]


def _opened(data: bytes) -> Callable[[Feed], Outputs]:
    session = open_session(data, level_of(onnx.load_model_from_string(data)))
    names = [output.name for output in session.get_outputs()]
    return lambda feed: dict(zip(names, session.run(names, dict(feed)), strict=True))
