"""Readable text of what each stage of the compiler makes; equal values give equal text."""

from dataclasses import dataclass
from functools import singledispatch

from tpulite.arch.config import Config
from tpulite.arch.isa import Command, disassemble
from tpulite.compiler.dump.groups import groups_text
from tpulite.compiler.dump.places import allocation_text, schedule_text, tiling_text
from tpulite.compiler.dump.text import columns, extents, short
from tpulite.compiler.geometry.group import Group
from tpulite.compiler.ops import Tiling
from tpulite.compiler.options import Options
from tpulite.compiler.place.placement import Placement
from tpulite.compiler.place.stores import Store
from tpulite.compiler.rewrite.simplify.network import Simplified
from tpulite.compiler.schedule.allocate import Allocation
from tpulite.compiler.schedule.live_tensors import Section, live_sections
from tpulite.compiler.schedule.scheduled import Schedule
from tpulite.compiler.state import BoundChoice
from tpulite.graph.layers import Elementwise, Layer, LayerGraph, Pool
from tpulite.program import TensorSpec


@dataclass(frozen=True)
class Compilation:
    """What a compilation is about."""

    layers: LayerGraph  #: The network.
    config: Config  #: The machine.
    options: Options  #: Choices of the compilation.
    schedule: Schedule | None = None  #: When buffers live, for a picture of their places.
    allocation: Allocation | None = None  #: Where they lie, for the live ranges of groups.


@singledispatch
def stage_text(value: object, about: Compilation) -> str:
    """Return the result of a stage as text, lines that end with line feeds.

    Parameters
    ----------
    value : object
        What the stage has made: :func:`tpulite.compiler.pipeline.compile_layers` shows it.
    about : Compilation
        What it was made of.

    Raises
    ------
    TypeError
        If no stage makes such a thing.
    """
    raise TypeError(f"No stage of the compiler makes a {type(value).__name__}")


@stage_text.register
def _(value: tuple, about: Compilation) -> str:
    """Write what is many of one kind: groups, commands."""
    kinds = {type(item) for item in value}
    if kinds <= {Command}:
        return "".join(f"{i:6}  {disassemble(command)}\n" for i, command in enumerate(value))
    if kinds == {Group}:
        sections: tuple[Section, ...] = ()
        if about.schedule is not None and about.allocation is not None:
            sections = live_sections(about.layers, value, about.schedule, about.allocation)
        return groups_text(value, about.layers, about.config, about.options, sections)
    names = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise TypeError(f"No stage of the compiler makes a tuple of {names}")


@stage_text.register
def _(value: Simplified, about: Compilation) -> str:
    return simplified_text(value)


@stage_text.register
def _(value: LayerGraph, about: Compilation) -> str:
    return layers_text(value)


@stage_text.register
def _(value: Placement, about: Compilation) -> str:
    return placement_text(value, about.layers, about.config)


@stage_text.register
def _(value: Tiling, about: Compilation) -> str:
    return tiling_text(value, about.layers)


@stage_text.register
def _(value: Schedule, about: Compilation) -> str:
    return schedule_text(value, about.layers)


@stage_text.register
def _(value: BoundChoice | None, about: Compilation) -> str:
    return "not tried\n" if value is None else bound_text(value)


@stage_text.register
def _(value: Allocation, about: Compilation) -> str:
    return allocation_text(value, about.schedule, about.config.ub_rows)


def bound_text(choice: BoundChoice) -> str:
    """Return which program is taken, and a line for each layer as it would be bound."""
    taken = "compiled" if choice.program is None else "bound to the shape"
    lines = f"taken: {taken}\n"
    if choice.compiled is not None:
        lines += f"compiled: {choice.compiled:,} cycles\n"
    if choice.plan is None:
        return f"{lines}bound: the network cannot be bound to its shape\n"
    if choice.bound is None:
        lines += f"bound: not made, the closed forms say {choice.plan.cycles:,} cycles\n"
    else:
        lines += f"bound: {choice.bound:,} cycles\n"
    rows = [
        (
            short(each.node.layer.name),
            each.strategy.name,
            f"{each.row:,}",
            f"{each.strategy.sizes['tile_rows']:,}",
            f"{each.strategy.cycles:,}",
        )
        for each in choice.plan.layers
    ]
    heads = ("layer", "strategy", "at row", "rows", "cycles")
    return f"{lines}\n{columns(heads, rows, right=(2, 3, 4))}"


def simplified_text(simplified: Simplified) -> str:
    """Return a line for each image that is narrower than it was, or is gone."""
    title = (
        f"removed: {simplified.removed_channels:,} channels, {simplified.removed_macs:,} MACs, "
        f"{len(simplified.originals)} copies\n"
    )
    narrow = [
        (
            short(name),
            f"{mask.sum():,}",
            f"{mask.size:,}",
            f"{(simplified.ranges[name].constant & ~mask).sum():,}",
        )
        for name, mask in simplified.needed.items()
    ]
    if narrow:
        heads = ("image", "channels", "of", "other constants")
        title += columns(heads, narrow, right=(1, 2, 3))
    copies = [(short(name), short(other)) for name, other in simplified.originals.items()]
    return title + (columns(("copy", "of"), copies) if copies else "")


def layers_text(layers: LayerGraph) -> str:
    """Return a line for each layer: what it reads and computes, and its multiplications."""
    macs = layers.macs()
    rows = [
        (
            str(i),
            type(layer).__name__.lower(),
            layer.name,
            ", ".join(_image(name, layers) for name in layer.inputs),
            _image(layer.output, layers),
            f"{macs[layer.name]:,}" if layer.name in macs else "",
            _details(layer),
        )
        for i, layer in enumerate(layers.layers)
    ]
    title = f"network {layers.name}: {len(layers.layers)} layers, {sum(macs.values()):,} MACs\n"
    heads = ("#", "kind", "layer", "reads", "computes", "MACs", "")
    return title + columns(heads, rows, right=(0, 5))


def placement_text(placement: Placement, layers: LayerGraph, config: Config) -> str:
    """Return a line for each image: how large it is, and whether it stays on chip or in DRAM."""
    rows = [
        (
            short(name),
            extents(layers.activations[name].shape),
            "yes" if store.resident else "",
            f"{store.rows * store.batch:,}",
            f"{store.rows * store.batch * config.row_bytes:,}",
            _dram(store, placement),
        )
        for name, store in placement.stores.items()
    ]
    heads = ("image", "shape", "stays in the buffer", "rows", "bytes", "in DRAM")
    free = [
        (layer.name, f"{rows:,}")
        for layer, rows in zip(layers.layers, placement.free_rows, strict=True)
    ]
    return (
        f"{columns(heads, rows, right=(3, 4))}\n"
        f"{columns(('layer', 'rows besides resident tensors'), free, right=(1,))}\n"
        f"scratch in DRAM: {placement.scratch_bytes:,} bytes\n"
    )


def _image(name: str, layers: LayerGraph) -> str:
    return f"{short(name)} {extents(layers.activations[name].shape)}"


def _dram(store: Store, placement: Placement) -> str:
    specs = [spec for spec in (store.spec, _output(store.name, placement)) if spec is not None]
    places = " and ".join(dict.fromkeys(f"{spec.window.name} {spec.offset:#x}" for spec in specs))
    if specs and specs[0].patches is not None:
        places += f", patches of {extents(specs[0].patches.size)}"
    if specs and specs[0].packed_rows is not None:
        places += f", packed rows of {specs[0].packed_rows.vectors} vectors"
    return places or ("" if store.resident else "no: slices in the buffer")


def _output(name: str, placement: Placement) -> TensorSpec | None:
    return next((spec for spec in placement.outputs if spec.name == name), None)


def _details(layer: Layer) -> str:
    match layer:
        case Pool():
            return f"{layer.op} {extents(layer.window)}, stride {extents(layer.stride)}"
        case Elementwise():
            return layer.op
    if (windows := layer.windows) is None:
        return ""
    words = [extents(windows.kernel)]
    words += [f"stride {extents(windows.stride)}"] * (windows.stride != (1, 1))
    words += [f"dilation {extents(windows.dilation)}"] * (windows.dilation != (1, 1))
    words += [f"padding {windows.padding}"] * any(windows.padding)
    return ", ".join(words)
