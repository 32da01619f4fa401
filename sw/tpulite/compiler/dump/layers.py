"""Readable text of networks, and of where their tensors are placed."""

from tpulite.arch.config import Config
from tpulite.compiler.dump.text import columns, extents, short
from tpulite.compiler.place.placement import Placement
from tpulite.compiler.place.stores import Store
from tpulite.graph.layers import Conv, Depthwise, Elementwise, Layer, LayerGraph, Pool
from tpulite.program import TensorSpec


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
        case Conv() | Depthwise():
            words = [extents(layer.weight.shape[:2])]
            words += [f"stride {extents(layer.stride)}"] * (layer.stride != (1, 1))
            words += [f"dilation {extents(layer.dilation)}"] * (layer.dilation != (1, 1))
            words += [f"padding {layer.padding}"] * (layer.padding != (0, 0, 0, 0))
            return ", ".join(words)
        case Pool():
            return f"{layer.op} {extents(layer.window)}, stride {extents(layer.stride)}"
        case Elementwise():
            return layer.op
    return ""
