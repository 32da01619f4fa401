"""The selector of a layer in C: all strategies in closed form, and the cheapest that fits."""

from collections.abc import Iterator, Mapping
from typing import Any

from tpulite.compiler.bind import Shape
from tpulite.compiler.bind.network import Network
from tpulite.compiler.plan.conv_slabs import Slots
from tpulite.compiler.plan.slabs import Strategy, cost
from tpulite.export.c_text import quoted
from tpulite.export.ranges.c_formulas import CFormulas
from tpulite.export.ranges.operators import OperatorText
from tpulite.export.ranges.symbols import Formulas

EXTENTS = ("batch", "height", "width", "channels")


def symbols_of(formulas: Formulas) -> Shape:
    """Return the shape whose extents are not known yet."""
    return Shape(*(formulas.name(name) for name in EXTENTS))  # type: ignore[arg-type]


def strategies_of(network: Network, shape: Shape) -> tuple[Strategy, ...]:
    """Return all strategies of a network of one layer for shapes that are not empty."""
    node = network.nodes[0]
    height, width = network.extents(shape.height, shape.width)[node.inputs[0]]
    return node.operator.strategies((shape.batch, height, width, shape.channels))


def selector_text(network: Network, text: OperatorText) -> str:
    """Return the function that offers all strategies of a layer.

    Parameters
    ----------
    network : Network
        A network of one layer.
    """
    formulas = Formulas()
    shape = symbols_of(formulas)
    found = strategies_of(network, shape)
    offers = [_Offer(strategy, text) for strategy in found if strategy.feasible is not False]
    written = CFormulas(formulas, [value for offer in offers for value in offer.values])
    lines = ["static void choose(const tpulite_shape *shape, tpulite_choice *best)", "{"]
    lines += written.definitions
    for offer in offers:
        lines += offer.lines(written)
    return "\n".join([*lines, "}"]) + "\n"


_MODES = {"image": 0, "images": 1, "through": 2}


class _Offer:
    """A strategy, as C offers it."""

    def __init__(self, strategy: Strategy, text: OperatorText) -> None:
        sizes = {"kind": text.kinds[strategy.kind], "mode": _MODES.get(strategy.mode, 0)}
        sizes |= _flat(strategy.sizes)
        if "tiles" not in sizes:
            tiles = sizes["slabs"] * sizes.get("panels", 1) * sizes.get("groups", 1)
            sizes["tiles"] = tiles * text.passes
        self._name, self._feasible = strategy.name, strategy.feasible
        self._cost = cost(strategy.cycles, strategy.traffic)
        self._others = {"cycles": strategy.cycles, "traffic": strategy.traffic}
        self._sizes = sizes
        self.values = [self._feasible, self._cost, *self._others.values(), *self._sizes.values()]

    def lines(self, written: CFormulas) -> Iterator[str]:
        feasible, price = written.of(self._feasible), written.of(self._cost)
        yield f"    if (tpulite_offer(best, {quoted(self._name)}, {feasible}, {price})) {{"
        for name, value in self._others.items():
            yield f"        best->{name} = {written.of(value)};"
        yield "        best->sizes = (tpulite_sizes){0};"
        for name, value in self._sizes.items():
            if (text := written.of(value)) != "0":
                yield f"        best->sizes.{name} = (int32_t){text};"
        yield "    }"


def _flat(sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Return sizes with places by what they are of."""
    found = dict(sizes)
    places = found.pop("slots", 0)
    if isinstance(places, Slots):
        return found | {
            "in_slots": places.inputs,
            "out_slots": places.outputs,
            "weight_slots": places.weights,
        }
    return found | {"slots": places}
