"""A network at one shape: where its tensors are, what each layer does there, and the program."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from tpulite.arch.config import BEAT_BYTES
from tpulite.arch.memory import Window
from tpulite.compiler.bind.bound import BoundProgram
from tpulite.compiler.bind.link import Linked, Uses, link
from tpulite.compiler.bind.network import Network, Node
from tpulite.compiler.bind.network_plan import LayerPlan, NetworkPlan
from tpulite.compiler.bind.residency import ResidentCandidate, place_tensors
from tpulite.compiler.bind.sizes import Sizes
from tpulite.compiler.operators.conv import Convolution
from tpulite.compiler.operators.depthwise import DepthwiseFilter
from tpulite.compiler.operators.operator import (
    Constants,
    Operator,
    Place,
    Resident,
    Shape,
    Site,
    Task,
    begin_parts,
)
from tpulite.compiler.operators.transfer import DramTensor
from tpulite.compiler.operators.words import Step
from tpulite.compiler.plan.slabs import Room, Strategy, choose
from tpulite.program import LayerInfo, TensorSpec

_CALM = 2
"""Part of the buffer that must be left if a layer is not to wait for the one before."""

_LACKING = 4
"""A layer that takes less than this part of the rows that it may take lacks none."""

_SURE = 1.05
"""How much faster other layers must be than those of the network."""

_GAIN = 1.1
"""How much faster a batch must be than its images one after the other to go together."""

_SPARED, _PLACES = 4, 16
"""Parts of the buffer that tensors leave: at most, and beside the weights of a layer."""


def bind_network(network: Network, shape: Shape, *others: Network) -> BoundProgram:
    """Return the program of a network for a shape of its range, or of others that do the same.

    Raises
    ------
    ValueError
        If a layer has no strategy: in a range that was checked all have.
    """
    binder, works = _choose_network((network, *others), shape)
    return binder.bind(works)


def plan_network(network: Network, shape: Shape, *others: Network) -> NetworkPlan:
    """Return what :func:`bind_network` chooses for a shape: strategies, and rows of the buffer."""
    binder, works = _choose_network((network, *others), shape)
    return binder.plan(works)


def _choose_network(networks: Sequence[Network], shape: Shape) -> tuple["_Binder", list["_Worked"]]:
    """Choose the fastest of some networks; the first one, if others are hardly faster."""
    found = [(network, _choose_way(network, shape)) for network in networks]
    ways = [(network is networks[0], *way) for network, way in found if way is not None]
    if not ways:
        raise ValueError(f"Network {networks[0].layers.name!r} has no strategies for {shape}")
    costs = [(1 if first else _SURE) * binder.cycles(works) for first, binder, works in ways]
    return ways[costs.index(min(costs))][1:]


def _choose_way(network: Network, shape: Shape) -> "tuple[_Binder, list[_Worked]] | None":
    """Choose whether a batch goes through together, and what each layer does; None: one cannot."""
    ways = [_Binder(network, shape, shape.batch)]
    if shape.batch > 1 and len(network.nodes) > 1 and not ways[0].all_stay:
        ways.append(_Binder(network, shape, 1))  # image after image
    planned = [(binder, works) for binder in ways if (works := binder.work()) is not None]
    if not planned:
        works = ways[-1].leave()
        return None if works is None else (ways[-1], works)
    # What goes together needs no weights twice, but it streams: that must be worth it.
    costs = [(1 + i == len(planned) or _GAIN) * b.cycles(w) for i, (b, w) in enumerate(planned)]
    return planned[costs.index(min(costs))]


def _on_array(node: Node) -> bool:
    return isinstance(node.operator, Convolution | DepthwiseFilter)


@dataclass(frozen=True)
class _Worked:
    """A layer, placed."""

    strategy: Strategy
    row: int
    room: Room


class _Binder:
    """``together`` images of a batch go through the network at a time."""

    def __init__(self, network: Network, shape: Shape, together: int) -> None:
        self._network, self._together = network, together
        self._config, self._alone = network.config, len(network.nodes) == 1
        self._times = shape.batch // together
        self._sizes = Sizes(network, shape, together)
        self._tensors, self._tops, self._calm = self._place()
        self._chosen: dict[Hashable, Strategy | None] = {}  # of equal layers, once

    @property
    def all_stay(self) -> bool:
        """Whether all tensors but inputs and outputs stay in the buffer."""
        computed = {self._network.whole(node.output) for node in self._network.nodes}
        return len(self._tensors) == len(computed) - len(self._network.layers.outputs)

    def _place(self) -> tuple[Mapping[str, int], list[int], list[int]]:
        """Choose the tensors that stay in the buffer, and their rows."""
        network = self._network
        lifetimes: dict[str, ResidentCandidate] = {}
        for number, node in enumerate(network.nodes):
            name = network.whole(node.output)
            if name in lifetimes or name in network.layers.outputs:
                continue
            if (last := network.last_readers.get(name)) is not None:
                changes = number and _on_array(node) != _on_array(network.nodes[number - 1])
                rows = network.blocks(name) * self._sizes.vectors(name)
                lifetimes[name] = ResidentCandidate(name, rows, number, last, number - changes)
        rows = self._config.ub_rows
        limits = [
            rows - min(node.operator.weight_rows + rows // _PLACES, rows // _SPARED)
            for node in network.nodes
        ]
        return place_tensors([*lifetimes.values()], limits)

    def _stays(self, name: str) -> bool:
        """Return whether a tensor stays in the buffer."""
        return self._network.whole(name) in self._tensors

    def cycles(self, works: Sequence[_Worked]) -> int:
        """Return about how long the layers take one after the other."""
        return self._times * sum(work.strategy.cycles for work in works)

    def leave(self) -> list[_Worked] | None:
        """Let all tensors go to DRAM: a layer needs what they take."""
        self._tensors, self._tops = {}, [0] * len(self._network.nodes)
        self._calm = self._tops
        return self.work()

    def bind(self, works: list[_Worked]) -> BoundProgram:
        """Return the program."""
        inputs, outputs = self._sizes.specs()
        places, begins, scratch = self._places(inputs, outputs)
        constants = Constants(self._network.constants)
        steps = self._steps(works, places, constants)
        uses = [self._uses(i, work, begins) for i, work in enumerate(works)]
        if self._times > 1:
            steps, uses = self._repeat(steps, uses, (places, begins), (*inputs, *outputs))
        linked = link(steps, uses, lead=self._config.queue_depth)
        return self._program(linked, constants.image(), scratch, inputs, outputs)

    def plan(self, works: Sequence[_Worked]) -> NetworkPlan:
        """Return what is chosen, for reports."""
        layers = []
        for node, work in zip(self._network.nodes, works, strict=True):
            name = node.inputs[0]
            shape = Shape(self._together, *self._sizes.extents[name], self._sizes.channels(name))
            layers.append(LayerPlan(node, shape, work.strategy, work.row, work.room))
        return NetworkPlan(tuple(layers), self._together, self._times)

    def work(self) -> list[_Worked] | None:
        """Choose a strategy for each layer, and rows for what it takes; None: one finds none."""
        works: list[_Worked] = []
        before = (0, 0)
        rows = self._config.ub_rows
        for number, node in enumerate(self._network.nodes):
            found = self._choose(number, node)
            if found is None:
                return None
            top, chosen, room = found
            taken = chosen.sizes["tile_rows"]
            low, high = (top, top + taken), (rows - taken, rows)
            here = low if not taken or before[0] >= low[1] or before[1] <= low[0] else high
            works.append(_Worked(chosen, here[0], room))
            before = here
        return works

    def _choose(self, number: int, node: Node) -> tuple[int, Strategy, Room] | None:
        """Return the rows below which a layer takes none, its strategy, and what it may take."""
        height, width = self._sizes.extents[node.inputs[0]]
        channels, rows = self._sizes.channels(node.inputs[0]), self._config.ub_rows
        sources = tuple(not self._stays(name) for name in node.inputs)
        stored = not self._stays(node.output)
        top, calm = self._tops[number], self._calm[number]
        # Half of the rows, so that the next layer can load meanwhile; or all, if that is faster.
        ways = [(top, rows - top)]
        if not self._alone:
            ways.insert(0, (top, (rows - top) // 2))
        if calm > top and rows - calm >= rows // _CALM:
            ways.insert(0, (calm, (rows - calm) // 2))
        found = []
        for start, most in ways:
            room = Room(most, sources, stored, chained=not self._alone)
            facts = (self._together, height, width, channels), room
            key = number if node.kind is None else -1 - node.kind, facts
            if key not in self._chosen:
                self._chosen[key] = choose(node.operator.strategies(*facts))
            if (chosen := self._chosen[key]) is not None:
                found.append((start, chosen, room))
                if _LACKING * chosen.sizes["tile_rows"] <= most:
                    break
        return min(found, key=lambda way: way[1].cycles, default=None)

    def _places(
        self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
    ) -> tuple[dict[str, Place], dict[str, int], int]:
        """Return where each tensor is and begins, and the bytes of those in the SCRATCH window."""
        network, places, begins, scratch = self._network, {}, {}, 0
        for spec in (*inputs, *outputs):
            places[spec.name] = DramTensor.of(spec.one, self._config)
            begins[spec.name] = spec.offset
        for name in dict.fromkeys(network.whole(node.output) for node in network.nodes):
            if name in places:
                continue
            vectors = self._sizes.vectors(name)
            if name in self._tensors:
                places[name], begins[name] = Resident(vectors), self._tensors[name]
                continue
            size = self._config.row_bytes
            block_bytes = -(-vectors * size // BEAT_BYTES) * BEAT_BYTES
            places[name] = DramTensor(Window.SCRATCH, vectors, 1, block_bytes, size, 0)
            begins[name] = scratch
            scratch += network.blocks(name) * block_bytes
        places |= {name: places[whole] for name, (whole, _) in network.parts.items()}
        return places, begin_parts(network.parts, begins, places), scratch

    def _steps(
        self, works: Sequence[_Worked], places: Mapping[str, Place], constants: Constants
    ) -> list[Step]:
        """Return the steps of all layers: those of one class are made at once."""
        tasks: dict[type[Operator], dict[int, Task[Operator]]] = {}
        for i, (node, work) in enumerate(zip(self._network.nodes, works, strict=True)):
            name, operator = node.inputs[0], node.operator
            shape = Shape(self._together, *self._sizes.extents[name], self._sizes.channels(name))
            site = Site(tuple(places[name] for name in node.inputs), places[node.output])
            task = Task(operator, shape, work.strategy, site, node.offset)
            tasks.setdefault(type(operator), {})[i] = task
        steps: dict[int, Step] = {}
        for kind, mine in tasks.items():
            steps |= zip(mine, kind.steps([*mine.values()], constants), strict=True)
        return [steps[i] for i in range(len(works))]

    def _origins(self, node: Node, row: int, begins: Mapping[str, int]) -> tuple[int, ...]:
        """Return what the fields of a layer are counted from."""
        sources = begins[node.inputs[0]], begins[node.inputs[-1]]
        return row, node.offset, begins[node.output], *sources, *node.operator.zero_points

    def _uses(self, number: int, work: _Worked, begins: Mapping[str, int]) -> Uses:
        node, network = self._network.nodes[number], self._network

        def rows(name: str) -> tuple[int, int]:
            first = begins[name]
            return first, first + network.blocks(name) * self._sizes.vectors(name)

        stays = (node.output,) if self._stays(node.output) else ()
        return Uses(
            operands=tuple(network.makers.get(name, ()) for name in node.inputs),
            rows=(
                (work.row, work.row + work.strategy.sizes["tile_rows"]),
                *(rows(name) for name in stays),
            ),
            also=tuple(rows(name) for name in node.inputs if self._stays(name)),
            origins=self._origins(node, work.row, begins),
        )

    def _repeat(
        self,
        steps: list[Step],
        uses: list[Uses],
        where: tuple[Mapping[str, Place], Mapping[str, int]],
        outer: Sequence[TensorSpec],
    ) -> tuple[list[Step], list[Uses]]:
        """Return the steps of all images: only what the host writes and reads lies elsewhere."""
        places, begins = where
        network, count = self._network, len(steps)
        all_uses = list(uses)
        for image in range(1, self._times):
            own = {spec.name: spec.offset_of(image, self._config) for spec in outer}
            here = begin_parts(network.parts, {**begins, **own}, places)
            for node, use in zip(network.nodes, uses, strict=True):
                shift = image * count
                reader = network.last_readers.get(network.whole(node.output))
                all_uses.append(
                    use._replace(
                        origins=self._origins(node, use.origins[0], here),
                        operands=tuple(
                            tuple(maker.later(shift) for maker in makers) for makers in use.operands
                        ),
                        read_before=-1 if reader is None else reader + shift - count,
                    )
                )
        return steps * self._times, all_uses

    def _program(
        self,
        linked: Linked,
        constants: bytes,
        scratch: int,
        inputs: tuple[TensorSpec, ...],
        outputs: tuple[TensorSpec, ...],
    ) -> BoundProgram:
        sizes = dict.fromkeys(Window, 0)
        sizes[Window.CONSTANTS] = -(-len(constants) // BEAT_BYTES) * BEAT_BYTES
        sizes[Window.SCRATCH] = scratch
        for spec in (*inputs, *outputs):
            sizes[spec.window] = spec.offset + spec.nbytes(self._config)
        return BoundProgram.of(
            np.ascontiguousarray(linked.words.T).tobytes(),
            partial(self._infos, linked),
            config=self._config,
            constants=constants,
            window_bytes=tuple(sizes.values()),
            inputs=inputs,
            outputs=outputs,
            resident=(),
        )

    def _infos(self, linked: Linked) -> tuple[LayerInfo, ...]:
        nodes, infos = self._network.nodes, []
        for node, (commands, others) in zip(nodes, linked.layers(len(nodes)), strict=True):
            vectors = self._times * self._sizes.vectors(node.output)
            layer = node.layer.name, vectors, node.depth, self._sizes.channels(node.output)
            infos.append(LayerInfo(*layer, commands, others))
        return tuple(infos)
