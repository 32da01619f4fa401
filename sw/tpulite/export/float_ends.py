"""Sums of floats whose results must be those of ONNX Runtime, with bytes or floats at both ends."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tpulite.export.host_steps import HostCall, least_floats
from tpulite.export.trials import BYTES, Trial
from tpulite.graph.graph import Tensor
from tpulite.runtime.host.ops import dequantize, quantize

Sums = Callable[[NDArray[np.float32]], NDArray[np.float32]]

_RESULTS = 2048
"""Results at least that are compared with the library's."""


def has_ends(*tensors: Tensor) -> bool:
    """Tell whether tensors are floats, or bytes of one scale."""
    return all(tensor.dtype == "float32" or _are_bytes(tensor) for tensor in tensors)


def _are_bytes(tensor: Tensor) -> bool:
    q = tensor.quantization
    return tensor.dtype in ("int8", "uint8") and q is not None and q.axis is None and q.sound


@dataclass(frozen=True, eq=False)
class Ends:
    """What a sum takes and gives."""

    trial: Trial  #: The operator in its library.
    #: Its activation and its result.
    x: Tensor
    y: Tensor
    #: Whether results are rounded with their zero point, as QLinearAveragePool does, and not before
    #: it is added, as QuantizeLinear does.
    adds_zero_point: bool = False

    def call(
        self,
        function: str,
        arguments: str,
        fields: Mapping[str, object],
        pointers: Mapping[str, NDArray] | None = None,
    ) -> HostCall:
        """Return a call with tables for the bytes."""
        fields, pointers = dict(fields), dict(pointers or {})
        if self.x.dtype != "float32":
            pointers["values"] = self.values
        if self.y.dtype != "float32":
            pointers["thresholds"] = least_floats(self._quantized, self.trial.named).astype(
                np.int32
            )
            fields["least"] = int(np.iinfo(self.y.dtype).min) & 0xFF
        return HostCall(function, arguments, fields, pointers)

    @property
    def values(self) -> NDArray[np.float32]:
        """What each byte of the activation means."""
        assert self.x.quantization is not None
        integers = np.arange(BYTES, dtype=np.uint8).view(self.x.dtype)
        return dequantize(integers, self.x.quantization, self.trial.exactness)

    def same(
        self, sums: Sums, draw: Callable[[np.random.Generator], NDArray] | None = None
    ) -> bool:
        """Tell whether the library has the results of sums on drawn activations.

        Parameters
        ----------
        sums : callable
            Returns sums of floats in the activation's shape, in order of the result's elements.
        draw : callable, optional
            Draws floats, or bytes.
        """
        rng, compute = np.random.default_rng(0), self.trial.opened()
        for _ in range(-(-_RESULTS // math.prod(self.y.shape))):
            drawn = (draw or self._drawn)(rng).reshape(self.x.shape)
            floats = drawn if self.x.dtype == "float32" else self.values[drawn]
            found = sums(floats).reshape(-1)
            if self.y.dtype != "float32":
                found = self._quantized(found)
            if not np.array_equal(compute({self.trial.name: drawn}), found):
                return False
        return True

    def other_order(self) -> ValueError:
        """Return the error of an operator whose results none of our orders has."""
        return ValueError(
            f"{self.trial.named} cannot be exported: on this CPU ONNX Runtime adds floats in an "
            "order that firmware has not"
        )

    def _drawn(self, rng: np.random.Generator) -> NDArray:
        if self.x.dtype == "float32":
            return rng.normal(0, 1, self.x.shape).astype(np.float32)
        spread = rng.integers(1, BYTES)
        return np.clip(rng.integers(-spread, BYTES + spread, self.x.shape), 0, BYTES - 1)

    def _quantized(self, values: NDArray[np.float32]) -> NDArray:
        q = self.y.quantization
        assert q is not None
        if not self.adds_zero_point:
            return quantize(values, q, self.y.dtype, self.trial.exactness)
        limits = np.iinfo(self.y.dtype)
        with np.errstate(over="ignore"):
            scaled = np.rint(values / q.scale[0] + np.float32(q.zero_point[0]))
        return np.clip(scaled, limits.min, limits.max).astype(self.y.dtype)
