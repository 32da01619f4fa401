"""Pooling, bound to shapes."""

import numpy as np

from tpulite.arch.config import Config
from tpulite.arch.isa import VECTOR, VectorOp
from tpulite.arch.memory import Window
from tpulite.arch.numerics import INT8
from tpulite.compiler.plan.closed_forms import Number, ceil_div
from tpulite.compiler.tiling.constants import common_record
from tpulite.compiler.tiling.pool import average_requantization
from tpulite.dynamic.operator import Bound, tensor_spec
from tpulite.dynamic.pool_commands import PoolCommands
from tpulite.dynamic.pool_plan import PoolFacts, pool_strategies
from tpulite.dynamic.selector import Strategy
from tpulite.dynamic.shapes import Shape
from tpulite.dynamic.transfer import DramTensor
from tpulite.dynamic.windows import axes_of
from tpulite.graph.layers import LayerGraph, Pool

__all__ = ["Pooling"]

_WINDOW = next(field.range[-1] for field in VECTOR.fields if field.name == "window_rows")
_LATENCY = {VectorOp.MAX: 8, VectorOp.SUM: 22}
"""Cycles of a VECTOR beside its windows."""


class Pooling:
    """Pooling layer; follows :class:`tpulite.dynamic.operator.Operator`.

    Parameters
    ----------
    layers : LayerGraph
        A network of this one layer.
    config : Config
        The machine.

    Raises
    ------
    ValueError
        If a window is too large or may lie in the padding, or if the machine lacks the rounding.
    """

    def __init__(self, layers: LayerGraph, config: Config) -> None:
        (layer,) = layers.layers
        assert isinstance(layer, Pool)
        self._layers, self._config, self._layer = layers, config, layer
        if max(layer.window) > _WINDOW:
            raise ValueError(
                f"{layer.title}: a window must cover {_WINDOW} positions of an axis or less, "
                f"not {layer.window}"
            )
        if any(pad >= layer.window[i % 2] for i, pad in enumerate(layer.padding)):
            raise ValueError(
                f"{layer.title}: a window {layer.window} must not lie in padding {layer.padding}"
            )
        self.axes = y, x = axes_of(layer.window, layer.stride, (1, 1), layer.padding)
        maximum = layer.op == "max"
        operation = VectorOp.MAX if maximum else VectorOp.SUM
        self._records: dict[int, bytes] = {}
        rows = 0 if maximum else len(self._record(1)) // config.row_bytes
        if layer.op == "average":  # as many as there are sizes of windows
            rows *= min(y.kernel, y.clipped + 1) * min(x.kernel, x.clipped + 1)
        self._facts = PoolFacts(
            config, y, x, rows, _LATENCY[operation], 1 if maximum else config.vector_cycles
        )
        summed = layer.op == "sum"
        self._fields = {
            "operation": operation,
            "low": INT8[0] if summed else layer.low,
            "high": INT8[-1] if summed else layer.high,
        }

    def depth(self) -> int:
        """Return the multiplications of an output element: none on the systolic array."""
        return 0

    def strategies(
        self, batch: Number, height: Number, width: Number, channels: Number
    ) -> tuple[Strategy, ...]:
        """Return all strategies; see :func:`pool_strategies`."""
        blocks = ceil_div(channels, self._config.array_size)
        return pool_strategies(self._facts, batch, height, width, blocks)

    def bind(self, shape: Shape, strategy: Strategy) -> Bound:
        """Fill in a shape and its strategy."""
        (source,), (target,) = self._layers.inputs, self._layers.outputs
        inputs = shape.batch, shape.height, shape.width
        outputs = (
            shape.batch,
            *(axis.outputs(n) for axis, n in zip(self.axes, inputs[1:], strict=True)),
        )
        spec = tensor_spec(self._layers, source, Window.INPUT, 0, inputs, shape.channels)
        out_spec = tensor_spec(self._layers, target, Window.OUTPUT, 0, outputs, shape.channels)
        commands = PoolCommands(self._facts, shape, strategy)
        records, param_row = self._parameters(*commands.sizes)
        program, positions = commands.program(
            DramTensor.of(spec, self._config),
            DramTensor.of(out_spec, self._config),
            self._fields,
            param_row,
            len(records),
        )
        return Bound(program, positions, records, (spec,), (out_spec,))

    def _parameters(self, y: np.ndarray, x: np.ndarray) -> tuple[bytes, np.ndarray]:
        """Return the records that windows of some sizes need, and the row of each one's."""
        if self._layer.op != "average":
            records = b"" if self._layer.op == "max" else self._record(1)
            return records, np.zeros((len(y), len(x)), np.int64)
        counts, index = np.unique(y[:, None] * x, return_inverse=True)
        records = [self._record(count) for count in counts.tolist()]
        rows = len(records[0]) // self._config.row_bytes
        return b"".join(records), index.reshape(len(y), len(x)) * rows

    def _record(self, count: int) -> bytes:
        """Return the record of windows of ``count`` vectors."""
        if count not in self._records:
            layer, requantization = self._layer, self._layer.requantization
            if requantization is None:
                requantization = average_requantization(count, layer.low, layer.high, layer.offset)
            self._records[count] = common_record(requantization, self._config).tobytes()
        return self._records[count]
