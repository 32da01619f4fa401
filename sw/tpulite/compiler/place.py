"""Where the images of a network are kept: in the unified buffer as long as they fit."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tpulite.arch.config import BEAT_BYTES, Config
from tpulite.arch.isa import RAW_ROWS
from tpulite.arch.memory import Window
from tpulite.compiler.constants import ConstantPool
from tpulite.compiler.images import Store
from tpulite.compiler.window import LARGEST_KERNEL
from tpulite.graph.layers import Conv, Depthwise, Image, Layer, LayerGraph
from tpulite.layout import pack_activations
from tpulite.program import Strings, TensorSpec

__all__ = ["Placement", "place_images"]


@dataclass(frozen=True)
class Placement:
    """Stores of all images, and what lies in DRAM.

    Parameters
    ----------
    stores : mapping of str to Store
        By name of the image.
    inputs, outputs : tuple of TensorSpec
        What the host writes and reads.
    scratch_bytes : int
        Bytes of images that do not stay on chip.
    free_rows : tuple of int
        For each layer, rows of the unified buffer that no resident image takes.
    """

    stores: Mapping[str, Store]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    scratch_bytes: int
    free_rows: tuple[int, ...]


def place_images(
    layers: LayerGraph,
    config: Config,
    budget: float,
    pool: ConstantPool,
    outside: frozenset[str] = frozenset(),
) -> Placement:
    """Decide for each image whether it stays on chip while it is needed.

    Parameters
    ----------
    layers : LayerGraph
        The network.
    config : Config
        The machine.
    budget : float
        Part of the unified buffer that images may take at any time. Where they take more, the
        largest ones go to DRAM.
    pool : ConstantPool
        Where images that are known are kept.
    outside : frozenset of str
        Images that must not stay on chip.
    """
    size = config.array_size
    resident = _resident(layers, config, int(budget * config.ub_rows), outside)
    stores: dict[str, Store] = {}
    inputs: list[TensorSpec] = []
    outputs: list[TensorSpec] = []
    offsets = dict.fromkeys(Window, 0)
    read = {name for layer in layers.layers for name in layer.inputs}

    def spec(name: str, window: Window, dtype: str, strings: Strings | None = None) -> TensorSpec:
        height, width, channels = layers.images[name].shape
        lines = height * width
        if strings is not None:
            lines = width if strings.transposed else height
        made = TensorSpec(
            name, window, offsets[window], lines, channels, dtype, (height, width), strings
        )
        offsets[window] += -(-made.nbytes(config) // BEAT_BYTES) * BEAT_BYTES
        return made

    for name, image in layers.images.items():
        height, width, channels = image.shape
        extents = (height, width, -(-channels // size))
        vector_rows = RAW_ROWS if image.dtype == "int32" else 1
        dtype = "uint8" if name in layers.unsigned else image.dtype
        where, copy, strings = None, None, None
        if name in layers.constants:
            plain = TensorSpec(name, Window.CONSTANTS, 0, height * width, channels, dtype)
            values = layers.constants[name].reshape(height * width, channels)
            offset = pool.add(pack_activations(values, plain, config).tobytes())
            where = replace(plain, offset=offset)
        elif name in layers.inputs:
            strings = _strings(layers, name, config, resident)
            where = spec(name, Window.INPUT, dtype, strings)
            inputs.append(where)
            if strings is not None:
                extents = (width if strings.transposed else height, strings.vectors, 1)
        elif name in layers.outputs:
            where = spec(name, Window.OUTPUT, dtype)
            outputs.append(where)
            if name not in resident and name in read:
                copy, where = where, spec(name, Window.SCRATCH, dtype)
        elif name not in resident:
            where = spec(name, Window.SCRATCH, dtype)
        stores[name] = Store(
            name,
            extents,
            config,
            spec=where,
            copy=copy,
            resident=name in resident,
            given=name in layers.inputs or name in layers.constants,
            vector_rows=vector_rows,
        )
    order = {name: i for i, name in enumerate((*layers.inputs, *layers.outputs))}
    return Placement(
        stores,
        tuple(sorted(inputs, key=lambda each: order[each.name])),
        tuple(sorted(outputs, key=lambda each: order[each.name])),
        offsets[Window.SCRATCH],
        tuple(
            config.ub_rows - sum(_rows(layers.images[name], config) for name in live & resident)
            for live in _live(layers)
        ),
    )


def _rows(image: Image, config: Config) -> int:
    height, width, channels = image.shape
    vector = RAW_ROWS if image.dtype == "int32" else 1
    return height * width * -(-channels // config.array_size) * vector


def _resident(layers: LayerGraph, config: Config, budget: int, outside: frozenset[str]) -> set[str]:
    """Return the images that stay on chip: the largest of those that are too many must go."""
    resident = set(layers.images) - outside
    for layer, live in zip(layers.layers, _live(layers), strict=True):
        involved = {*layer.inputs, layer.output}
        while resident & live:
            taken = sum(_rows(layers.images[name], config) for name in live & resident)
            strips = config.ub_rows // 4 if involved - resident else 0
            if taken + min(_constant_rows(layer, config), budget // 4) + strips <= budget:
                break
            resident.remove(
                max(live & resident, key=lambda name: (_rows(layers.images[name], config), name))
            )
    return resident


def _live(layers: LayerGraph) -> list[set[str]]:
    """Return for each layer the images that are needed while it runs, or later."""
    last_use = {name: i for i, layer in enumerate(layers.layers) for name in layer.inputs}
    live, result = set(layers.inputs), []
    for i, layer in enumerate(layers.layers):
        live.add(layer.output)
        result.append(set(live))
        live -= {name for name in live if last_use.get(name, -1) <= i}
    return result


def _constant_rows(layer: Layer, config: Config) -> int:
    """Return the rows of the weights and records of a layer."""
    if not isinstance(layer, Conv | Depthwise):
        return config.record_rows
    size = config.array_size
    blocks = -(-layer.weight.shape[-1] // size)
    taps = layer.weight.shape[0] * layer.weight.shape[1]
    tiles = taps * -(-layer.weight.shape[2] // size) if isinstance(layer, Conv) else 2
    return blocks * (tiles * size + config.record_rows)


def _strings(layers: LayerGraph, name: str, config: Config, resident: set[str]) -> Strings | None:
    """Return how an input is laid out for dense mode, if that saves tiles."""
    users = [layer for layer in layers.layers if name in layer.inputs]
    if len(users) != 1 or not isinstance(users[0], Conv) or name in layers.outputs:
        return None
    layer, size = users[0], config.array_size
    image, target = layers.images[name].shape, layers.images[layer.output].shape
    if max(layer.dilation) > 1:
        return None
    best, tiles = None, layer.weight.shape[0] * layer.weight.shape[1] * -(-image[2] // size)
    for transposed in (False, True):
        along, across = (0, 1) if transposed else (1, 0)
        step = layer.stride[along] * image[2]
        length = layer.weight.shape[along] * image[2]
        chunks = -(-length // size)
        needed = layer.weight.shape[across] * chunks
        columns = target[along]
        fits = step <= size and max(layer.weight.shape[across], chunks) <= LARGEST_KERNEL
        if transposed:  # columns are complete before rows: nothing could be stored meanwhile
            fits = fits and layer.output in resident and layer.output not in layers.outputs
        if not fits or columns > config.acc_rows or needed >= tiles:
            continue
        tiles = needed
        vectors = -(-((columns - 1) * step + length) // size)
        grain = max(1, BEAT_BYTES // size)
        vectors = -(-vectors // grain) * grain
        fill = layer.input_zero_point + (128 if name in layers.unsigned else 0)
        pad = layer.padding[1 - across]
        best = Strings(vectors, pad, fill, transposed)
    return best
