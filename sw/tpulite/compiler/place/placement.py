"""Where the images of a network are kept: in the unified buffer as long as they fit."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.isa import RAW_ROWS
from tpulite.arch.memory import Window
from tpulite.compiler.geometry.extents import pack_rows, sole_reader
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.geometry.slices import column_grain
from tpulite.compiler.options import Options
from tpulite.compiler.place.constants import ConstantPool
from tpulite.compiler.place.live import LiveActivations
from tpulite.compiler.place.stores import Store
from tpulite.compiler.place.views import InDram, StoreExtents
from tpulite.graph.layers import Depthwise, LayerGraph, Made, Pick, Reshape
from tpulite.layout import pack_activations
from tpulite.program import PackedRows, TensorSpec


@dataclass(frozen=True)
class Placement:
    """Stores of all images, and what lies in DRAM."""

    stores: Mapping[str, Store]  #: By name of the image.
    #: What the host writes and reads.
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    scratch_bytes: int  #: Bytes of images that do not stay on chip.
    live: tuple[frozenset[str], ...]  #: For each layer, images that are resident while it runs.
    free_rows: tuple[int, ...]  #: For each layer, rows of the unified buffer that they leave.


def place_activations(
    layers: LayerGraph,
    groups: tuple[Group, ...],
    config: Config,
    options: Options,
    *,
    pool: ConstantPool,
    outside: frozenset[str] = frozenset(),
    taken: int = 0,
) -> Placement:
    """Decide for each image whether it stays on chip while it is needed.

    Parameters
    ----------
    groups : tuple of Group
        Which layers run slice by slice: images between them need no place.
    pool : ConstantPool
        Where images that are known are kept.
    outside : frozenset of str
        Images that must not stay on chip.
    taken : int
        Rows of the unified buffer in which constants stay.
    """
    size, batch = config.array_size, options.batch
    live = LiveActivations(layers, groups, config, batch, taken)
    resident = live.resident(outside)
    skewed, fixed, grain = _skewed(layers), fixed_lines(layers), column_grain(config)
    stores: dict[str, Store] = {}
    inputs: list[TensorSpec] = []
    outputs: list[TensorSpec] = []
    offsets = dict.fromkeys(Window, 0)
    read = {name for layer in layers.layers for name in layer.inputs}

    def spec(
        name: str,
        window: Window,
        dtype: str,
        packed_rows: PackedRows | None = None,
        line: int | None = None,
    ) -> TensorSpec:
        height, width, channels = layers.activations[name].shape
        lines = height * (line or width)
        if packed_rows is not None:
            lines = width if packed_rows.transposed else height
        shape = (height, width)
        made = TensorSpec(
            name, window, offsets[window], lines, channels, dtype, shape, packed_rows, batch
        )
        if (packed := layers.packed.get(name)) is not None:
            fields = {"m": lines, "packed_rows": packed_rows, "batch": batch}
            made = replace(packed, window=window, offset=made.offset, **fields)
        offsets[window] += -(-made.nbytes(config) // BEAT_BYTES) * BEAT_BYTES
        return made

    for name in (*layers.inputs, *layers.constants, *layers.makers):
        if isinstance(maker := layers.makers.get(name), Pick) and maker.view:
            stores[name] = view_of(maker, stores[maker.inputs[0]])
            continue
        image = layers.activations[name]
        height, width, channels = image.shape
        extents = (height, width, -(-channels // size))
        vector_rows = RAW_ROWS if image.dtype == "int32" else 1
        dtype = "uint8" if name in layers.unsigned else image.dtype
        where, copy, packed_rows = None, None, None
        images = 1 if name in layers.constants else batch
        line = None
        if name in layers.constants:
            plain = TensorSpec(name, Window.CONSTANTS, 0, height * width, channels, dtype)
            values = layers.constants[name].reshape(height * width, channels)
            offset = pool.add(pack_activations(values, plain, config).tobytes())
            where = replace(plain, offset=offset)
        elif name in layers.inputs:
            packed_rows = None
            if options.dense_mode and name not in live.narrow:
                packed_rows = _packed_rows(layers, name, config, resident - live.cut)
            where = spec(name, Window.INPUT, dtype, packed_rows)
            inputs.append(where)
            if packed_rows is not None:
                extents = (width if packed_rows.transposed else height, packed_rows.vectors, 1)
        elif name in layers.outputs:
            where = spec(name, Window.OUTPUT, dtype)
            outputs.append(where)
            if name not in resident and name in read:
                copy, where = where, spec(name, Window.SCRATCH, dtype)
        elif name not in resident and name not in live.inside:
            if (same := stores.get(live.renamed.get(name, ""))) and same.spec is not None:
                where = replace(same.spec, name=name, image=(height, width))
                images = same.batch  # constants are there once
            else:
                if name in live.finer and name not in fixed:
                    line = -(-width // grain) * grain
                where = spec(name, Window.SCRATCH, dtype, line=line)
        store = Store.of(
            name,
            StoreExtents(*extents, vector_rows, images),
            config,
            InDram(
                tuple(each for each in (where, copy) if each is not None),
                name in layers.inputs or name in layers.constants,
                line,
            ),
            resident=name in resident,
            over=stores.get(live.over.get(name, "")) if name in resident else None,
            skew=int(name in skewed and extents[1] % config.ub_banks == 0),
        )
        stores[name] = replace(store, made=layers.made(name))
    order = {name: i for i, name in enumerate((*layers.inputs, *layers.outputs))}
    return Placement(
        stores,
        tuple(sorted(inputs, key=lambda each: order[each.name])),
        tuple(sorted(outputs, key=lambda each: order[each.name])),
        offsets[Window.SCRATCH],
        tuple(frozenset(each & resident) for each in live.activations),
        tuple(live.most - live.rows(i, each & resident) for i, each in enumerate(live.activations)),
    )


def view_of(layer: Pick, source: Store) -> Store:
    """Return the part of an image that a view shows."""
    size = source.config.array_size
    rows, columns, channels = (
        range(axis[0], axis[-1] + 1) for axis in (layer.rows, layer.columns, layer.channels)
    )
    blocks = range(channels.start // size, -(-channels.stop // size))
    return source.window(layer.output, rows, columns, blocks)


def fixed_lines(layers: LayerGraph) -> set[str]:
    """Return images whose rows follow each other in DRAM without a gap.

    They are those that the host sees or makes, that get other extents, or that are read as one run
    of pixels: by pooling.
    """
    found = {*layers.inputs, *layers.outputs, *layers.constants}
    for layer in layers.layers:
        if layer.reads_runs:
            found.update(layer.inputs)
        if isinstance(layer, Reshape):
            found.add(layer.output)
    return found


def _skewed(layers: LayerGraph) -> set[str]:
    """Return images of which columns are streamed: only depthwise convolutions read them.

    Rows that are a multiple of the banks apart would all lie in one bank.
    """
    found, others = set(), {*layers.constants}
    for layer in layers.layers:
        (found if isinstance(layer, Depthwise) else others).update(layer.inputs)
        if layer.made is Made.OTHERWISE:
            others.add(layer.output)
    return found - others


def _packed_rows(
    layers: LayerGraph, name: str, config: Config, resident: set[str]
) -> PackedRows | None:
    """Return how an input is laid out for dense mode, if that saves tiles."""
    layer = sole_reader(layers, name)
    if layer is None:
        return None
    images = layers.activations[name], layers.activations[layer.output]
    columns = layer.output in resident and layer.output not in layers.outputs
    unsigned = name in layers.unsigned
    return pack_rows(layer, images, config, unsigned=unsigned, columns=columns)
