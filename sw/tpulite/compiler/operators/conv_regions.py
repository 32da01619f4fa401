"""What single commands of convolutions compute, and what they read of an image."""

from dataclasses import dataclass

import numpy as np

from tpulite.compiler.geometry.axis import ceil_div
from tpulite.compiler.plan.segments import FAR, Indices, Segments, Table, cut_parts


@dataclass(frozen=True)
class Slabs:
    """Slabs of output rows of all layers, in order; rows run through the batch."""

    segments: Segments  #: The slabs of each layer.
    #: Output rows.
    begin: Indices
    stop: Indices
    #: Input rows that they need.
    top: Indices
    bottom: Indices

    def cut(
        self, layers: Table, pieces: Indices, lines: Indices
    ) -> tuple[Indices, Indices, Indices]:
        """Return slabs, cut at images, and of some layers at every so many rows.

        Parameters
        ----------
        layers : Table
            All layers.
        pieces, lines : array of int
            How many pieces each layer is cut into, and their rows.

        Returns
        -------
        layer, row, stop : array of int
            The layer of each part, its first row, and where it ends.
        """
        owner, edges = self.segments.owner, self.begin
        if (layers["batch"] == 1).all() and not pieces.any():
            return owner, edges, self.stop
        images, parts = Segments.of(layers["batch"]), Segments.of(pieces)
        owner = np.concatenate([owner, images.owner, parts.owner])
        height = layers["out_height"][images.owner]
        edges = [edges, images.number * height, parts.number * lines[parts.owner]]
        layer, row = np.divmod(np.unique(owner * FAR + np.concatenate(edges)), FAR)
        stop = np.append(row[1:], 0)
        ends = np.append(layer[1:] != layer[:-1], True)
        stop[ends] = layers["batch"] * layers["out_height"]
        return layer, row, stop

    def find(self, layer: Indices, row: Indices) -> Indices:
        """Return the slab of a row of a layer."""
        keys = self.segments.owner * FAR + self.begin
        return np.searchsorted(keys, layer * FAR + row, "right") - 1


def cut_slabs(layers: Table) -> Slabs:
    """Cut all layers into the slabs of their strategies."""
    segments = Segments.of(layers["repeat"] * layers["parts"])
    mine = layers.spread(segments.owner)
    begin, stop = cut_parts(segments, mine["extent"], mine["parts"], mine["unit"])
    shift = segments.number // mine["parts"] * mine["extent"]
    begin, stop = ((edge + shift) * mine["scale"] for edge in (begin, stop))
    bounds = mine.axis("y").reads(begin, stop, mine["height"], mine["read_unit"])
    return Slabs(segments, begin, stop, *bounds)


@dataclass(frozen=True)
class Panels:
    """Ranges of output columns of all layers, in order."""

    segments: Segments  #: Those of each layer.
    #: Output columns.
    begin: Indices
    stop: Indices
    #: The panel, and its first column; all ranges are of one where accumulators are fewer than the
    #: columns of a row.
    number: Indices
    origin: Indices


@dataclass(frozen=True)
class Regions:
    """Regions of the output that single commands compute, in order."""

    #: What it belongs to; all tiles, slabs and column ranges are numbered through.
    layer: Indices
    tile: Indices
    slab: Indices
    panel: Indices
    group: Indices  #: Regions of a tile that accumulate side by side have one number.
    acc_row: Indices  #: First accumulator.
    #: First output row, in numbers that run through the batch, and output column; how many.
    row: Indices
    rows: Indices
    column: Indices
    columns: Indices


def cut_regions(
    layers: Table, slabs: Slabs, tiles: Segments, accumulators: int
) -> tuple[Panels, Regions]:
    """Cut tiles at images, and into what the accumulators hold.

    Parameters
    ----------
    layers : Table
        All layers.
    slabs : Slabs
        Their slabs.
    tiles : Segments
        Their tiles: panel after panel of slab after slab.
    accumulators : int
        Those of the machine.
    """
    width, tallest = layers["out_width"], layers["tallest"]
    together = layers["slab_rows"] * layers["out_columns"] <= accumulators
    lines = np.minimum(np.maximum(accumulators // width, 1), tallest)
    lines = np.where(together, tallest, lines)
    wide = ~together & (width > accumulators)
    across = ceil_div(width, np.minimum(accumulators, layers["widest"]))
    across = np.where(wide, across, layers["panels"])
    columns = Segments.of(across)
    owner = columns.owner
    unit = np.where(wide, 1, layers["column_unit"])
    x, x_stop = cut_parts(columns, width[owner], across[owner], unit[owner])
    apart = ~wide[owner]
    panels = Panels(columns, x, x_stop, columns.number * apart, x * apart)

    rows = layers["batch"] * layers["out_height"]
    pieces = np.where(layers["slab_rows"] > lines, ceil_div(rows, lines), 0)
    layer, y, y_stop = slabs.cut(layers, pieces, lines)
    regions = Segments.of(across[layer])
    i, layer = regions.owner, layer[regions.owner]
    j = columns.starts[layer] + regions.number
    slab = slabs.find(layer, y[i])
    tile = (slab - slabs.segments.starts[layer]) * layers["panels"][layer] + panels.number[j]
    tile += tiles.starts[layer]
    order = np.argsort(tile, kind="stable")
    i, j, tile, layer, slab = i[order], j[order], tile[order], layer[order], slab[order]
    members = Segments.owned(tile, int(tiles.starts[-1]))
    row, column = (y[i], y_stop[i] - y[i]), (x[j], x_stop[j] - x[j])
    count = row[1] * column[1]
    before = np.cumsum(count) - count
    joined = together[layer]
    acc_row = (before - before[members.starts[tile]]) * joined
    group = members.number * ~joined
    return panels, Regions(layer, tile, slab, j, group, acc_row, *row, *column)
