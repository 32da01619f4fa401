"""Which images of a network can stay in the unified buffer while they are needed."""

from tpulite.arch.config import Config
from tpulite.compiler.geometry.extents import (
    activation_rows,
    constant_rows,
    plane_rows,
    rows_at_once,
    vectors_of_row,
)
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.geometry.slices import plan_columns, plan_steps
from tpulite.compiler.geometry.views import view_roots
from tpulite.compiler.group.residency import passing_activations
from tpulite.graph.layers import LayerGraph, Reshape


class LiveActivations:
    """Which images are needed while a layer runs, and which of them can stay on chip.

    This decides. :mod:`tpulite.compiler.group.residency` is what costs of groups assume, before
    the groups are known: it knows sums of rows alone. Both let the largest image go first, but here
    what is made in place counts once, and strips are those that tiling makes.

    Parameters
    ----------
    groups : tuple of Group
        Which layers run slice by slice.
    batch : int
        Images of a run that go together.
    taken : int
        Rows of the unified buffer in which constants stay.

    Attributes
    ----------
    most : int
        Rows of the unified buffer beside them.
    images : list of set of str
        For each layer, images that are needed while it runs, or later; those between the layers
        of a group that runs slice by slice are left out.
    inside : set of str
        Those that are left out.
    passing : set of str
        Those that layers alone move through the buffer, in tiles.
    over : dict of str to str
        Images that may be made in the place of another one, which nobody needs any longer.
    views : dict of str to str
        Images that are parts of others, which are there as long as they are needed.
    renamed : dict of str to str
        Images that are others with other extents.
    cut, narrow, finer : set of str
        Images that are read or computed slice by slice, column by column, and by layers alone that
        would not fit if they were not cut finer.
    """

    def __init__(
        self,
        layers: LayerGraph,
        groups: tuple[Group, ...],
        config: Config,
        batch: int,
        taken: int = 0,
    ) -> None:
        self.most = config.ub_rows - taken
        self._layers, self._config, self._batch = layers, config, batch
        self._groups = {i: group for group in groups if not group.alone for i in group.layers}
        cut = [group for group in groups if not group.alone or group.finer]
        first, last = dict.fromkeys(layers.inputs, 0), dict.fromkeys(layers.inputs, -1)
        for i, layer in enumerate(layers.layers):
            group = self._groups.get(i, Group(range(i, i + 1))).layers
            first.setdefault(layer.output, group.start)
            last.setdefault(layer.output, group.stop - 1)
            last |= dict.fromkeys(layer.inputs, group.stop - 1)
        self.views = view_roots(layers)
        for name, root in self.views.items():
            last[root] = max(last[root], last[name])
        alone = {group.layers.start for group in groups if group.alone and not group.finer}
        passing = passing_activations(layers)
        self.passing = {name for name, index in passing.items() if index in alone}
        self.inside: set[str] = set()
        self.cut: set[str] = set()
        self.narrow: set[str] = set()
        self.finer: set[str] = set()
        self._taken: dict[tuple[Group, frozenset[str]], int] = {}
        for group in cut:
            members = [layers.layers[i] for i in group.layers]
            involved = {name for x in members for name in (*x.inputs, x.output)}
            self.narrow |= involved if group.columns > 1 else set()
            self.cut |= involved if group.slices or group.columns > 1 else set()
            if group.alone:
                self.finer |= involved
                continue
            later = {name for x in layers.layers[group.layers.stop :] for name in x.inputs}
            self.inside |= {x.output for x in members} - later - set(layers.outputs)
        self.over = {
            layer.output: name
            for i, layer in enumerate(layers.layers)
            if layer.in_place and i not in self._groups
            for name in layer.inputs
            if last[name] == i and layers.activations[name] == layers.activations[layer.output]
            if name not in layers.outputs and name not in layers.constants
            if name not in self.views
        }
        self.renamed = {
            layer.output: layer.inputs[0]
            for layer in layers.layers
            if isinstance(layer, Reshape)
            and layers.activations[layer.inputs[0]].shape[2]
            == layers.activations[layer.output].shape[2]
        }
        self._reshaped = {
            name
            for layer in layers.layers
            if isinstance(layer, Reshape) and layer.output not in self.renamed
            for name in (*layer.inputs, layer.output)
        }
        self.activations: list[set[str]] = [set() for _ in layers.layers]
        for name, start in first.items():
            if name not in self.inside and name not in self.views:
                for i in range(start, last[name] + 1):
                    self.activations[i].add(name)

    def rows(self, index: int, names: set[str]) -> int:
        """Return the rows that whole images take while a layer runs."""
        layer = self._layers.layers[index]
        replaced = {self.over.get(layer.output), layer.output} <= names
        return sum(self._rows(name) for name in names if not (replaced and name == layer.output))

    def _rows(self, name: str) -> int:
        batch = 1 if name in self._layers.constants else self._batch
        return batch * activation_rows(self._layers.activations[name], self._config)

    def resident(self, outside: frozenset[str]) -> set[str]:
        """Return the images that stay: the largest of those that are too many must go."""
        resident = set(self._layers.activations) - outside - self.inside - self.passing
        resident -= {name for name, root in self.views.items() if root not in resident}
        for i, live in enumerate(self.activations):
            while (
                resident & live
                and self.rows(i, live & resident) + self._needs(i, resident) > self.most
            ):
                gone = max(live & resident, key=self._ease)
                resident -= {gone, *(name for name, root in self.views.items() if root == gone)}
        for target, source in self.renamed.items():  # both here, or both in DRAM
            if target not in self._layers.outputs and len({target, source} & resident) == 1:
                return self.resident(outside | {target, source})
        return resident

    def _ease(self, name: str) -> tuple[bool, int, str]:
        """Return how easily an image can leave the buffer: vectors of a reshape lie apart."""
        return name not in self._reshaped, self._rows(name), name

    def _needs(self, index: int, resident: set[str]) -> int:
        """Return the rows that a layer needs beside images that stay."""
        if (group := self._groups.get(index)) is not None:
            if group.by_blocks:
                return self._planes(group, resident)
            key = (group, frozenset(resident & self.cut))
            if key not in self._taken:
                self._taken[key] = self._strips(*key)
            return self._taken[key]
        layer = self._layers.layers[index]
        strips = 0 if resident >= {*layer.inputs, layer.output} else self._config.ub_rows // 4
        return min(constant_rows(layer, self._config), self._config.ub_rows // 4) + strips

    def _planes(self, group: Group, resident: set[str]) -> int:
        """Return the rows that two layers need that run channel block by channel block."""
        here = self._layers.layers[group.layers[-1]].output in resident
        return plane_rows(self._layers, group.layers, self._config, resident=here)

    def _strips(self, group: Group, resident: frozenset[str]) -> int:
        """Return the rows of strips and constants of a group; what DMA moves is there twice."""
        layers = self._layers
        widths = plan_columns(layers, group) if group.columns > 1 else ({},)
        total = 0
        for i in group.layers:
            layer = layers.layers[i]
            rows = constant_rows(layer, self._config)
            if i in group.reloaded:
                rows = rows_at_once(rows, layers.activations[layer.output].shape[2], self._config)
            total += rows
        views: dict[str, int] = {}
        for step in plan_steps(layers, group):
            for name, rows in step.items():
                views[name] = max(views.get(name, 0), len(rows.live))
        for name, height in views.items():
            if name not in resident:
                image = layers.activations[name]
                width = max(len(each.get(name, range(image.shape[1]))) for each in widths)
                rows = height * vectors_of_row(image, self._config) * width // image.shape[1]
                total += rows * (1 if name in self.inside else 2)
        return total
