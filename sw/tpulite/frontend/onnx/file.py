"""Import of ONNX files: quantized in any of ONNX's ways, or floats."""

from dataclasses import replace

import onnx

from tpulite.frontend.given_shapes import AS_IN_FILE, GivenShapes
from tpulite.frontend.onnx.draft import Draft
from tpulite.frontend.onnx.layout.channels_last import channels_last
from tpulite.frontend.onnx.layout.shuffle import join_shuffles
from tpulite.frontend.onnx.library import is_quantized, library_version, optimize
from tpulite.frontend.onnx.origins import origins
from tpulite.frontend.onnx.quantize.qdq import fuse_quantization
from tpulite.frontend.onnx.read.model import read_onnx
from tpulite.frontend.onnx.translate.elementwise import ELEMENTWISE_RULES
from tpulite.frontend.onnx.translate.importer import Importer
from tpulite.frontend.onnx.translate.integers import INTEGER_RULES
from tpulite.frontend.onnx.translate.movement import MOVEMENT_RULES
from tpulite.frontend.onnx.translate.products import PRODUCT_RULES
from tpulite.frontend.onnx.translate.shapes import SHAPE_RULES
from tpulite.frontend.onnx.translate.windows import WINDOW_RULES
from tpulite.frontend.onnx.zero_points import fix_zero_points
from tpulite.frontend.states import with_states
from tpulite.graph.graph import Graph, Source
from tpulite.graph.verify import verify

RULES = {
    **ELEMENTWISE_RULES,
    **INTEGER_RULES,
    **PRODUCT_RULES,
    **SHAPE_RULES,
    **MOVEMENT_RULES,
    **WINDOW_RULES,
}


def load_onnx(
    data: bytes, name: str, given: GivenShapes = AS_IN_FILE, *, library: str = ""
) -> Graph:
    """Read a network from an ONNX file.

    Operators between DequantizeLinear and QuantizeLinear, QLinear operators and integer products
    become quantized operators; others work on floats. Images are [batch, height, width, channels]:
    a tensor whose order is not the file's is named after the file's with a suffix (``.nhwc``), and
    transposes stand where the order changes, at inputs and outputs of ordinary networks. Operators
    that graphs do not know keep their name, in lower case, and their attributes; forms that graphs
    cannot express become ``unsupported``, with the attribute ``reason``.

    Besides the operators of all files there are ``transpose`` (``perm``), ``softmax`` (``axis``)
    and ``argmax`` (``axis``, ``keep_dims``), and ``conv`` and ``dense`` may have the attribute
    ``raw``: their output is the int32 sums
    (zero points that nobody else knows are subtracted after the product, by an ``add`` of int32).

    Parameters
    ----------
    data : bytes
        The file.
    name : str
        Name of the network.
    given : GivenShapes
        Shapes of inputs that the file leaves open.
    library : str
        Name and version of the library that has optimized the file, if one has. Biases of what it
        has left in floats are not rounded then.

    Returns
    -------
    Graph
        The network; an open batch is 1.

    Raises
    ------
    ValueError
        If the file is damaged or incomplete, of an unknown version, or has inputs whose shapes stay
        open; the message names the node or tensor.
    """
    model = read_onnx(data, given)
    in_file_order = Importer(model, RULES).run(name)
    quantized = fuse_quantization(in_file_order, by_library=bool(library))
    graph, orders = channels_last(join_shuffles(quantized))
    if not library and {"matmul", "softmax"} <= {node.op for node in graph.nodes}:
        graph = Draft(graph).freeze()  # transposes that have been added are in order, too
    verify(graph)
    return replace(
        graph,
        source=Source(
            model.file,
            origins(graph, orders, in_file_order, model),
            library,
            numerics=model.numerics,
            dialect=model.dialect,
        ),
    )


def load_as_library(graph: Graph, *, keep_int8: bool = False) -> Graph:
    """Return a network as ONNX Runtime runs it.

    What the library itself makes an operator on integers is one; products and averages that it
    leaves to floats stay such, whatever is quantized beside them.

    Parameters
    ----------
    graph : Graph
        What :func:`load_onnx` made of a file.
    keep_int8 : bool
        Whether int8 activations stay int8, which an ordinary session on x86 makes uint8 or leaves
        to floats.

    Returns
    -------
    Graph
        The network, whose source is the optimized file; the same one if nothing of it is quantized.

    Raises
    ------
    ValueError
        If the library is not installed, or refuses the file.
    """
    assert graph.source is not None
    data = graph.source.data
    if not is_quantized(onnx.load_model_from_string(data)):
        return graph
    optimized = onnx.load_model_from_string(optimize(data, keep_int8=keep_int8, name=graph.name))
    fix_zero_points(optimized)
    loaded = load_onnx(optimized.SerializeToString(), graph.name, library=library_version())
    return with_states(loaded, [(state.output, state.input) for state in graph.states])
