"""The exact result of a network, computed from its definition alone."""

import numpy as np

from tpulite.arch.numerics import Rounding
from tpulite.golden.ops import requantize
from tpulite.graph.network import Dense, Network

__all__ = ["reference"]


def reference(network: Network, values: np.ndarray) -> np.ndarray:
    """Compute a network with numpy: no tiles, no folding, no commands.

    Parameters
    ----------
    network : Network
        The network.
    values : ndarray of the network's input type, [m, channels]
        Its input.

    Returns
    -------
    ndarray of the network's output type, [m, channels]
        What every device must return, bit for bit.

    Raises
    ------
    ValueError
        If the input has another type or shape.
    """
    if values.dtype != network.input_dtype or values.ndim != 2 or values.shape[1] != network.k:
        raise ValueError(
            f"Input of network {network.name!r} must be {network.input_dtype} of shape "
            f"(m, {network.k}), not {values.dtype} of shape {values.shape}"
        )
    uint8 = network.input_dtype == "uint8"
    values = (values ^ 0x80).view(np.int8) if uint8 else values
    for layer in network.layers:
        values = _dense(layer, values)
    return values.view(np.uint8) ^ 0x80 if uint8 and not network.layers[-1].raw else values


def _dense(layer: Dense, values: np.ndarray) -> np.ndarray:
    # Exact in float64: all sums are integers far below 2**53.
    activation = values.astype(np.float64) - layer.input_zero_point
    weight = layer.weight.astype(np.float64) - layer.weight_zero_point
    acc = (activation @ weight).astype(np.int64).astype(np.int32)
    if layer.raw:
        return acc
    multiplier, shift = np.array(layer.multipliers(), np.int64).T
    return requantize(
        acc,
        bias=layer.bias,
        multiplier=multiplier,
        shift=shift,
        rounding=Rounding(layer.rounding),
        zero_point=layer.output_zero_point,
        low=layer.low,
        high=layer.high,
    )
