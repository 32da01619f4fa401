"""Scales of TFLite tensors, as TensorFlow's converter chooses them after a calibration."""

from collections.abc import Mapping

import numpy as np

from tpulite_testing.plain.network import Network, Step

__all__ = ["Scale", "Scales", "quantized_constant", "range_scale"]

Scale = tuple[float, int]

_LOWEST = {"int8": -128, "uint8": 0}
_FIXED = {"sigmoid": (1 / 256, -128), "tanh": (1 / 128, 0), "softmax": (1 / 256, -128)}
"""Outputs whose range is known, in int8."""
_KEEP = (
    *("max_pool", "average_pool", "concat", "rows", "halves", "shuffle", "resize", "flatten"),
    *("positions", "as_map", "frames", "sequence", "cut_off", "widen"),
)
"""Steps whose outputs are quantized as their inputs."""


def range_scale(low: float, high: float, dtype: str) -> Scale:
    """Return scale and zero point for a range, which is made to hold 0."""
    low, high = min(float(low), 0.0), max(float(high), 0.0)
    scale = float(np.float32(max(high - low, 1e-3) / 255))
    return scale, int(np.clip(round(_LOWEST[dtype] - low / scale), *_limits(dtype)))


def quantized_constant(values: np.ndarray, dtype: str) -> tuple[np.ndarray, Scale]:
    """Quantize an operand that is known; return its scale, too."""
    scale, zero_point = range_scale(values.min(), values.max(), dtype)
    return np.clip(np.rint(values / scale) + zero_point, *_limits(dtype)).astype(dtype), (
        scale,
        zero_point,
    )


class Scales:
    """Scales of a network's tensors.

    Parameters
    ----------
    network : Network
        The network.
    dtype : str
        ``int8`` or ``uint8``.
    fused : mapping of str to Step
        Activations that may be part of other operators, by their outputs: what is in front of
        them, if it is a tensor of the file, is quantized as what is behind.
    """

    def __init__(self, network: Network, dtype: str, fused: Mapping[str, Step]) -> None:
        self._dtype = dtype
        self._owner = {name: name for name in network.values}
        self._fixed: dict[str, Scale] = {}
        hidden = self._hidden = {step.inputs[0]: name for name, step in fused.items()}
        for step in network.steps:
            out = hidden.get(step.outputs[0], step.outputs[0])
            kind = step["function"] if step.kind == "activation" else step.kind
            if kind in _FIXED:
                self._fixed[out] = self.fixed(kind)
            elif step.kind in _KEEP:
                # Inputs with a known range are quantized again, unless all have it.
                free = [name for name in step.inputs if self._root(name) not in self._fixed]
                for name in (*(free or step.inputs), *step.outputs[1:]):
                    self._owner[self._root(name)] = self._root(out)
                if not free:
                    self._fixed[self._root(out)] = self._fixed_of(step)
        ranges: dict[str, tuple[float, float]] = {}
        for name, values in network.values.items():
            if name not in hidden:
                low, high = ranges.get(self._root(name), (0.0, 0.0))
                ranges[self._root(name)] = min(low, values.min()), max(high, values.max())
        self._scales = {name: range_scale(*ends, dtype) for name, ends in ranges.items()}

    def fixed(self, kind: str) -> Scale:
        """Return the scale of outputs whose range is known."""
        scale, zero_point = _FIXED[kind]
        return scale, zero_point if self._dtype == "int8" else zero_point + 128

    def of(self, name: str) -> Scale:
        """Return the scale of a tensor of the file."""
        root = self._root(self._hidden.get(name, name))
        return self._fixed.get(root) or self._scales[root]

    def _fixed_of(self, step: Step) -> Scale:
        return next(
            scale
            for name, scale in self._fixed.items()
            if self._root(name) == self._root(step.outputs[0])
        )

    def _root(self, name: str) -> str:
        while self._owner[name] != name:
            name = self._owner[name]
        return name


def _limits(dtype: str) -> tuple[int, int]:
    return _LOWEST[dtype], _LOWEST[dtype] + 255
