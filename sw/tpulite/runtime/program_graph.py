"""A program as a network of one operator: what goes in, and what comes out."""

from tpulite.graph.graph import Graph, Node, Tensor
from tpulite.program import Program


def program_graph(program: Program) -> Graph:
    """Return a graph whose only operator is a program.

    Tensors are integers without a scale, in the shapes in which a
    :class:`~tpulite.runtime.session.Session` takes and gives them.
    """
    specs = (*program.inputs, *program.outputs)
    inputs, outputs = (
        tuple(spec.name for spec in side) for side in (program.inputs, program.outputs)
    )
    return Graph(
        name="program",
        tensors={spec.name: Tensor(spec.name, spec.shape, spec.dtype) for spec in specs},
        nodes=(Node("program", "program", inputs, outputs),),
        inputs=inputs,
        outputs=outputs,
        format="tflite",
    )
