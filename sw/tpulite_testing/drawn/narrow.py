"""Drawn cases whose weights have 4 bits."""

from dataclasses import replace

import numpy as np

from tpulite.graph.layers import Conv, Layer
from tpulite_testing.drawn.compilations import Compilation

__all__ = ["narrow", "narrowed"]


def narrow(layer: Layer, rng: np.random.Generator) -> Layer:
    """Return a convolution with weights of 4 bits; other layers as they are."""
    if not isinstance(layer, Conv) or layer.digits is not None:
        return layer
    weight = rng.integers(-8, 8, layer.weight.shape, np.int8)
    return replace(layer, weight=weight, weight_zero_point=0)


def narrowed(case: Compilation, seed: int) -> Compilation:
    """Return a case on a machine with int4, with weights of 4 bits of most convolutions."""
    rng = np.random.default_rng(seed)
    layers = tuple(narrow(x, rng) if rng.random() < 0.8 else x for x in case.graph.layers)
    graph, config = replace(case.graph, layers=layers), replace(case.config, int4=True)
    return replace(case, graph=graph, config=config)
