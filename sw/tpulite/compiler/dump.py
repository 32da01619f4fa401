"""Readable text of what each stage of the compiler makes; equal values give equal text."""

from functools import singledispatch

from tpulite.arch.config import Config
from tpulite.arch.isa import Command, disassemble
from tpulite.compiler.dump_text import columns, extents
from tpulite.compiler.dump_tiling import tiling_text
from tpulite.compiler.group import Group
from tpulite.compiler.images import Store
from tpulite.compiler.ops import Tiling
from tpulite.compiler.place import Placement
from tpulite.compiler.slices import plan_columns, plan_steps
from tpulite.graph.layers import Conv, Depthwise, Elementwise, Layer, LayerGraph, Pool
from tpulite.program import TensorSpec

__all__ = ["STAGES", "stage_text"]

STAGES = ("layers", "group", "place", "tile", "schedule", "allocate", "encode")
"""Names of the stages, in the order in which the compiler goes through them."""


@singledispatch
def stage_text(value: object, layers: LayerGraph, config: Config) -> str:
    """Return the result of a stage as text, lines that end with line feeds.

    Parameters
    ----------
    value : object
        What the stage has made: :func:`tpulite.compiler.pipeline.compile_layers` shows it.
    layers : LayerGraph
        The network.
    config : Config
        The machine.

    Raises
    ------
    TypeError
        If no stage makes such a thing.
    """
    raise TypeError(f"No stage of the compiler makes a {type(value).__name__}")


@stage_text.register
def _(value: tuple, layers: LayerGraph, config: Config) -> str:
    """Write what is many of one kind: groups, commands."""
    kinds = {type(item) for item in value}
    if kinds <= {Command}:
        return "".join(f"{i:6}  {disassemble(command)}\n" for i, command in enumerate(value))
    if kinds == {Group}:
        return "\n".join(_group(i, group, layers, config) for i, group in enumerate(value))
    names = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise TypeError(f"No stage of the compiler makes a tuple of {names}")


@stage_text.register
def _(value: LayerGraph, layers: LayerGraph, config: Config) -> str:
    macs = value.macs()
    rows = [
        (
            str(i),
            type(layer).__name__.lower(),
            layer.name,
            ", ".join(f"{name} {extents(value.images[name].shape)}" for name in layer.inputs),
            f"{layer.output} {extents(value.images[layer.output].shape)}",
            f"{macs[layer.name]:,}" if layer.name in macs else "",
            _details(layer),
        )
        for i, layer in enumerate(value.layers)
    ]
    title = f"network {value.name}: {len(value.layers)} layers, {sum(macs.values()):,} MACs\n"
    heads = ("#", "kind", "layer", "reads", "computes", "MACs", "")
    return title + columns(heads, rows, right=(0, 5))


@stage_text.register
def _(value: Placement, layers: LayerGraph, config: Config) -> str:
    rows = [
        (
            name,
            extents(layers.images[name].shape),
            "yes" if store.resident else "",
            f"{store.rows * store.batch:,}",
            f"{store.rows * store.batch * config.row_bytes:,}",
            _dram(store, value, layers),
        )
        for name, store in value.stores.items()
    ]
    heads = ("image", "shape", "stays in the buffer", "rows", "bytes", "in DRAM")
    lines = [columns(heads, rows, right=(3, 4)), "\n"]
    lines += [
        f"rows without resident images during {layer.name}: {free:,} of {config.ub_rows:,}\n"
        for layer, free in zip(layers.layers, value.free_rows, strict=True)
    ]
    return "".join((*lines, f"scratch: {value.scratch_bytes:,} bytes\n"))


@stage_text.register
def _(value: Tiling, layers: LayerGraph, config: Config) -> str:
    return tiling_text(value, layers)


def _group(index: int, group: Group, layers: LayerGraph, config: Config) -> str:
    """Write a group: its layers, and which rows of each image are there at a time."""
    members = [layers.layers[i] for i in group.layers]
    span = f"{group.layers.start} to {group.layers.stop - 1}"
    span = f"layers {span}" if len(members) > 1 else f"layer {group.layers.start}"
    names = ", ".join(layer.name for layer in members)
    if not group.slices:
        return f"group {index}: {span}, which cuts itself: {names}\n"
    how = "rows shared by slices are kept" if group.rolling else "halos are made again"
    cut = f"{group.slices} slices of height"
    if group.columns > 1:
        widths = [max(map(len, each.values())) for each in plan_columns(layers, group)]
        cut += f" in {group.columns} slices of width (at most {max(widths)} columns)"
    steps = plan_steps(layers, group)
    rows = []
    for name in sorted({name for step in steps for name in step}):
        height, width, channels = layers.images[name].shape
        views = [step[name].view for step in steps if name in step]
        made = sum(len(step[name].fresh) for step in steps if name in step)
        size = max(map(len, views)) * width * -(-channels // config.array_size)
        first = " ".join(f"{view.start}:{view.stop}" for view in views[:_SHOWN])
        more = " ..." if len(views) > _SHOWN else ""
        rows.append((name, str(height), str(made), f"{size:,}", first + more))
    heads = ("  image", "height", "rows made", "buffer rows", "image rows at a time")
    table = columns(heads, [(f"  {name}", *rest) for name, *rest in rows], right=(1, 2, 3))
    return f"group {index}: {span}, {cut}, {how}: {names}\n{table}"


_SHOWN = 6
"""Slices of an image that are shown."""


def _dram(store: Store, placement: Placement, layers: LayerGraph) -> str:
    specs = [spec for spec in (store.spec, _output(store.name, placement)) if spec is not None]
    places = dict.fromkeys(f"{spec.window.name} {spec.offset:#x}" for spec in specs)
    if specs and specs[0].strings is not None:
        return f"{' and '.join(places)}, strings of {specs[0].strings.vectors} vectors"
    return " and ".join(places) or ("" if store.resident else "no: slices in the buffer")


def _output(name: str, placement: Placement) -> TensorSpec | None:
    return next((spec for spec in placement.outputs if spec.name == name), None)


def _details(layer: Layer) -> str:
    match layer:
        case Conv() | Depthwise():
            height, width = layer.weight.shape[:2]
            words = [f"{height}x{width}"]
            words += [f"stride {extents(layer.stride)}"] * (layer.stride != (1, 1))
            words += [f"dilation {extents(layer.dilation)}"] * (layer.dilation != (1, 1))
            words += [f"padding {layer.padding}"] * (layer.padding != (0, 0, 0, 0))
            return ", ".join(words)
        case Pool():
            return f"{layer.op} {extents(layer.window)}, stride {extents(layer.stride)}"
        case Elementwise():
            return layer.op
    return ""
