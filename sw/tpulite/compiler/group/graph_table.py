"""A network in tables: what the search for groups asks again and again."""

from functools import cached_property

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.isa import RAW_ROWS
from tpulite.compiler.geometry.backward import Reach, reach_of
from tpulite.compiler.geometry.extents import (
    constant_rows,
    input_rows,
    rows_at_once,
    vectors_of_row,
)
from tpulite.compiler.geometry.views import view_roots
from tpulite.compiler.options import Options
from tpulite.compiler.plan.layer_cost import Engines, compute_cycles
from tpulite.compiler.plan.space import Placed, grain_of
from tpulite.graph.layers import LayerGraph


class GraphTable:
    """Sizes, uses and geometry of a network's images and layers, on one machine.

    Attributes
    ----------
    sources : list of tuple of str
        Images that each layer reads.
    outputs : list of str
        The image that each layer computes.
    constants : list of int
        Rows of the unified buffer of each layer's constants.
    extents : list of dict of str to int
        Heights, and widths, of all images.
    row : dict of str to int
        Rows of the unified buffer that an image row takes.
    first, last : dict of str to int
        First and last layer that need an image; inputs are there from the start.
    given : frozenset of str
        Images that are in DRAM from the start.
    """

    def __init__(self, layers: LayerGraph, config: Config, options: Options) -> None:
        self.layers, self.config, self.options = layers, config, options
        self.sources = [layer.inputs for layer in layers.layers]
        self.outputs = [layer.output for layer in layers.layers]
        self.extents = [
            {n: x.shape[axis] for n, x in layers.activations.items()} for axis in (0, 1)
        ]
        self.row = {n: vectors_of_row(image, config) for n, image in layers.activations.items()}
        self.given = frozenset((*layers.inputs, *layers.constants))
        self.constants, self._packed = [], []
        self.first, self.last = dict.fromkeys(self.given, 0), dict.fromkeys(self.given, -1)
        self._first_read: dict[str, int] = {}
        for i, layer in enumerate(layers.layers):
            packed = input_rows(layers, layer, config) if options.dense_mode else None
            if packed is not None:
                self.row[layer.inputs[0]] = packed.vectors
            self.constants.append(constant_rows(layer, config, packed_rows=packed is not None))
            self._packed.append(packed)
            self.first.setdefault(layer.output, i)
            self.last |= dict.fromkeys((*layer.inputs, layer.output), i)
            for name in layer.inputs:
                self._first_read.setdefault(name, i)
        self.views = view_roots(layers)
        for name, root in self.views.items():
            self.last[root] = max(self.last[root], self.last[name])
        self._engines: dict[tuple[int, int, int], Engines] = {}
        self._touched: dict[range, frozenset[str]] = {}
        self._alive: dict[range, tuple[str, ...]] = {}

    @cached_property
    def reaches(self) -> list[list[tuple[Reach, ...] | None]]:
        """For each axis and layer, what it needs of its inputs; None if it cannot be cut."""
        images = self.layers.activations
        return [
            [
                tuple(reach_of(x, n, images, axis=axis) for n in range(len(x.inputs)))
                if x.sliceable(axis)
                else None
                for x in self.layers.layers
            ]
            for axis in (0, 1)
        ]

    @cached_property
    def crossing(self) -> list[frozenset[str]]:
        """For each layer, the images from before it that it or later layers need."""
        return [
            frozenset(name for name in self.first if self.first[name] < i <= self.last[name])
            for i in range(len(self.sources))
        ]

    def columns_can_be_cut(self, index: int) -> bool:
        """Return whether a layer can run column by column: rows of its images begin at beats."""
        if self.reaches[0][index] is None or self.reaches[1][index] is None:
            return False
        heights, widths = self.extents
        return all(
            heights[name] == 1 or widths[name] * self.config.row_bytes % BEAT_BYTES == 0
            for name in self.touched(range(index, index + 1))
        )

    def rows(self, name: str) -> int:
        """Return the rows of the buffer that an image takes, of all images of a batch."""
        if name in self.views:
            return 0
        batch = 1 if name in self.layers.constants else self.options.batch
        return self.row[name] * self.extents[0][name] * batch

    def placed(self, name: str, *, resident: bool) -> Placed:
        """Return an activation as plans see it; of a batch, one."""
        activation, config = self.layers.activations[name], self.config
        height, width, channels = activation.shape
        blocks, vector_rows = -(-channels // config.array_size), 1
        if activation.dtype == "int32":
            vector_rows = RAW_ROWS
        packed = None
        if name in self._first_read:
            packed = self._packed[self._first_read[name]]
        if packed is not None:
            width, blocks = packed.vectors, 1
        pitch = width * vector_rows
        return Placed(
            height,
            width,
            blocks,
            line=width,
            column=0,
            grain=grain_of(pitch, config),
            pitch=pitch,
            vector_rows=vector_rows,
            resident=resident,
            moved=not resident or name in self.given or name in self.layers.outputs,
            packed=packed,
            made=self.layers.made(name),
        )

    def height(self, members: range) -> int:
        """Return the rows of what the last layer computes."""
        return self.extents[0][self.outputs[members[-1]]]

    def at_once(self, index: int) -> int:
        """Return the rows of constants while two blocks of outputs have theirs."""
        channels = self.layers.activations[self.outputs[index]].shape[2]
        return rows_at_once(self.constants[index], channels, self.config)

    def inside(self, name: str, members: range) -> bool:
        """Return whether nobody needs an image but these layers."""
        return (
            self.first[name] in members
            and self.last[name] in members
            and name not in self.given
            and name not in self.layers.outputs
        )

    def alive(self, members: range) -> tuple[str, ...]:
        """Return images that are needed while layers run, or before and after, small ones first."""
        if members not in self._alive:
            names = (
                name
                for name, first in self.first.items()
                if first < members.stop and self.last[name] >= members.start
            )
            self._alive[members] = tuple(sorted(names, key=lambda name: (self.rows(name), name)))
        return self._alive[members]

    def touched(self, members: range) -> frozenset[str]:
        """Return the images that layers read or compute."""
        if members not in self._touched:
            self._touched[members] = frozenset(
                name for i in members for name in (*self.sources[i], self.outputs[i])
            )
        return self._touched[members]

    def enters(self, name: str, members: range) -> bool:
        """Return whether these layers are the first to read an image that is given."""
        return name in self.given and self._first_read[name] in members

    def compute(self, index: int, rows: int, columns: int) -> Engines:
        """Return the cycles of part of a layer: see :func:`compute_cycles`."""
        key = (index, rows, columns)
        if key not in self._engines:
            names = (*self.sources[index], self.outputs[index])
            images = tuple(self.layers.activations[name] for name in names)
            self._engines[key] = compute_cycles(
                self.layers.layers[index],
                images,
                (rows, columns),
                self.config,
                packed_rows=self._packed[index] is not None,
            )
        return self._engines[key]
