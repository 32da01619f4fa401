"""Outputs of a network and of its quantized form, for the same inputs."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tpulite.graph.graph import Graph
from tpulite.quant.exactness import Exactness
from tpulite.runtime.inputs import as_inputs
from tpulite.runtime.model import Model

__all__ = ["compare_outputs"]


def compare_outputs(
    floats: Graph, quantized: Graph, samples: Sequence[Mapping[str, np.ndarray]]
) -> Iterator[list[tuple[str, np.ndarray, np.ndarray]]]:
    """Yield for each sample the outputs: name, floats, and what the quantized network finds.

    Parameters
    ----------
    floats, quantized : Graph
        Networks with inputs and outputs in the same order.
    samples : sequence of mapping of str to ndarray
        Inputs of the network of floats.
    """
    first, second = Model.load(floats), Model.load(quantized)
    for sample in samples:
        given = {}
        for name, other in zip(floats.inputs, quantized.inputs, strict=True):
            tensor = quantized.tensors[other]
            given[other], _ = as_inputs(sample[name], tensor, Exactness.LITERT_REF)
        wanted, found = first.reference(dict(sample)), second.reference(given)
        yield [
            (name, wanted[name], _real(quantized, other, found[other]))
            for name, other in zip(floats.outputs, quantized.outputs, strict=True)
        ]


def _real(graph: Graph, name: str, values: np.ndarray) -> np.ndarray:
    """Return what the integers of a tensor mean."""
    quantization = graph.tensors[name].quantization
    return values if quantization is None else quantization.real(values)
