"""What a network is, before anything of it is compiled: ends, parameters, peak of memory."""

from collections.abc import Iterator, Sequence

from tpulite.arch.config import Config
from tpulite.compiler.geometry.extents import activation_rows
from tpulite.configs import named_config
from tpulite.graph.graph import Graph, Tensor
from tpulite.graph.layers import LayerGraph
from tpulite.graph.macs import macs_of
from tpulite.quant.lower.int16.nodes import lacking_int16
from tpulite.quant.lower.network import lacking
from tpulite.quant.place import place
from tpulite.quant.placed import Placed


def fact_lines(graph: Graph, parts: Sequence[LayerGraph], config: Config) -> Iterator[str]:
    """Yield lines on ends, classes, states, parameters and the buffer that feature maps need.

    Parameters
    ----------
    parts : sequence of LayerGraph
        The parts of it that run on the machine.
    """
    for what, names in (("input", graph.inputs), ("output", graph.outputs)):
        for name in names:
            yield f"{what} {name}: {_text(graph.tensors[name])}"
    if graph.classes is not None:
        yield f"classes: {graph.classes}, the first values of the output"
    for state in graph.states:
        yield f"state {state.name}: {_text(graph.tensors[state.input])}"
    yield f"parameters: {parameter_bytes(graph):,} bytes"
    if parts:
        rows, layer = max(peak_rows(part, config) for part in parts)
        yield (
            f"feature maps at the peak: {rows:,} rows of {config.array_size} bytes ({layer}); "
            f"the buffer has {config.ub_rows:,}"
        )


def parameter_bytes(graph: Graph) -> int:
    """Return the bytes of all constants that nodes read."""
    read = {name for node in graph.nodes for name in node.inputs if name}
    constants = (graph.tensors[name].data for name in read)
    return sum(data.nbytes for data in constants if data is not None)


def peak_rows(layers: LayerGraph, config: Config) -> tuple[int, str]:
    """Return the rows of all activations that are alive at once, and the layer where most are.

    An activation is alive from the layer that computes it, an input from the first one, to the
    last layer that reads it. Layers run in the network's order, each whole; tiling needs less.
    """
    last = {name: i for i, layer in enumerate(layers.layers) for name in layer.inputs}
    last |= dict.fromkeys(layers.outputs, len(layers.layers))
    alive = {name for name in layers.inputs if name in last}
    peak = (0, "")
    for i, layer in enumerate(layers.layers):
        alive.add(layer.output)
        rows = sum(activation_rows(layers.activations[name], config) for name in alive)
        peak = max(peak, (rows, layer.name))
        alive -= {name for name in alive if last.get(name, i) <= i}
    return peak


def next_step(placed: Placed, path: str, config: Config, *, runs: bool) -> str:
    """Return what makes more of a network run on the machine; empty if unknown.

    Parameters
    ----------
    path : str
        Its file.
    runs : bool
        Whether something of it runs on the machine.
    """
    graph, size = placed.graph, config.array_size
    products = [node for node in graph.nodes if macs_of(node, graph)]
    read = [graph.tensors[name] for node in products for name in node.inputs[:2] if name]
    types = {tensor.dtype for tensor in read if tensor.data is None}
    if types == {"int16"} and not runs:
        return (
            "activations are int16: convert the network with int8 activations, or take a machine "
            f"with int16 (--config {size}x{size},int16=1; for FULLY_CONNECTED --exact tflm, too)"
        )
    wide = f"{size}x{size},int16=1"
    if kinds := _lacking(placed, config, named_config(wide)):
        return f"a machine with int16 runs {', '.join(kinds)}: --config {wide}"
    if runs or types != {"float32"}:
        return ""
    if any(tensor.dtype in ("int8", "uint8") for tensor in read):
        if graph.format == "onnx":
            return (
                "weights are integers, activations floats: "
                f"tpulite quantize {path} --calibrate SAMPLES"
            )
        return (
            "activations are floats (dynamic-range quantization): convert the network with int8 "
            "activations, which needs a representative data set"
        )
    return f"float network: tpulite quantize {path} --calibrate SAMPLES"


def _lacking(placed: Placed, config: Config, wide: Config) -> tuple[str, ...]:
    """Return the operators that lack int16 and that a machine with int16 runs."""
    graph = placed.graph
    if not (lacks := lacking_int16(graph, config)):
        return ()
    found = place(graph, placed.exactness, lacking=lacking(graph, wide), vector=wide.array_size)
    runs = (x for x in graph.nodes if x.name in lacks and found.placements[x.name].engine != "host")
    return tuple(dict.fromkeys(node.source or node.op.upper() for node in runs))


def _text(tensor: Tensor) -> str:
    shape = "x".join(map(str, tensor.shape)) or "scalar"
    q = tensor.quantization
    if q is None:
        return f"{shape} {tensor.dtype}"
    if len(q.scale) > 1:
        return f"{shape} {tensor.dtype}, {len(q.scale)} scales along axis {q.axis}"
    return f"{shape} {tensor.dtype}, scale {q.scale[0]:.6g}, zero point {q.zero_point[0]}"
