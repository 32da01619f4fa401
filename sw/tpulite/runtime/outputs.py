"""Outputs of a network and of its quantized form, for the same inputs."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tpulite.graph.graph import Graph
from tpulite.quant.exactness import Exactness
from tpulite.runtime.host.libraries import LackingError
from tpulite.runtime.inputs import as_inputs
from tpulite.runtime.model import Model


def compare_outputs(
    first: Graph, second: Graph, samples: Sequence[Mapping[str, np.ndarray]]
) -> Iterator[list[tuple[str, np.ndarray, np.ndarray]]]:
    """Yield for each sample the outputs of two networks as real numbers: name, first, second.

    Parameters
    ----------
    first, second : Graph
        Networks with inputs and outputs in the same order.
    samples : sequence of mapping of str to ndarray
        Inputs by their names in the first one, as real numbers.
    """
    graphs = first, second
    models = [load_runnable(graph) for graph in graphs]
    for sample in samples:
        values = [sample[name] for name in first.inputs]
        found = [
            model.reference(given_inputs(graph, dict(zip(graph.inputs, values, strict=True))))
            for model, graph in zip(models, graphs, strict=True)
        ]
        yield [
            (name, _real(first, name, found[0][name]), _real(second, other, found[1][other]))
            for name, other in zip(first.outputs, second.outputs, strict=True)
        ]


def load_runnable(graph: Graph) -> Model:
    """Load a network with the numerics of its format, or of the kernels that have its operators.

    LiteRT's reference kernels have no ELU, for example.
    """
    try:
        return Model.load(graph)
    except LackingError:
        return Model.load(graph, exact="litert-opt")


def given_inputs(graph: Graph, sample: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return inputs in the dtypes of a network, quantized as LiteRT's reference kernels do."""
    return {
        name: as_inputs(sample[name], graph.tensors[name], Exactness.LITERT_REF)[0]
        for name in graph.inputs
    }


def _real(graph: Graph, name: str, values: np.ndarray) -> np.ndarray:
    """Return what the integers of a tensor mean."""
    quantization = graph.tensors[name].quantization
    return values if quantization is None else quantization.real(values)
