"""Quantized networks of dense layers: frozen, verified, printable, one file each."""

import dataclasses
import io
import json
import zipfile
import zlib
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from tpulite.arch import isa
from tpulite.arch.numerics import INT8, Rounding, float32_multiplier, quantize_multiplier
from tpulite.graph.layers import Conv, Image, LayerGraph
from tpulite.graph.requantization import Requantization

__all__ = ["Dense", "Network"]

_FORMAT = "tpulite-network"
_FORMAT_VERSION = 1
_ARRAYS = ("weight", "bias", "scale")
_UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    OSError,
    EOFError,
    LookupError,
    TypeError,
    ValueError,
)
_SHIFTS = next(field.range for field in isa.RECORD.fields if field.name == "shift")


@dataclass(frozen=True, kw_only=True, eq=False)
class Dense:
    """A dense layer: ``clamp(round(scale * (bias + (x - zx) @ (w - zw))) + zy)``.

    Everything is said in terms of int8 activations. A uint8 activation is an int8 one with its top
    bit inverted, so its zero point and clamp are those of the uint8 tensor minus 128.

    Parameters
    ----------
    name : str
        Name, unique in its network.
    weight : ndarray of int8, [K, N]
        Weights: K input by N output channels.
    bias : ndarray of int32, [N]
        Added to the accumulators, wrapping.
    scale : ndarray of float32 or float64, [N] or [1]
        Scale of input times scale of weights over scale of output, a channel or the whole layer.
        With ``FLOAT32`` it is float32. Without effect if ``raw``.
    rounding : Rounding
        How scaled accumulators are rounded.
    input_zero_point, weight_zero_point, output_zero_point : int
        Zero points, in the range of int8.
    low, high : int
        Clamp of the output; ReLU is ``low = output_zero_point``.
    raw : bool
        Whether the int32 accumulators are the output: only of the last layer, and only with zero
        bias and input zero point, because nothing is added to them.
    """

    name: str
    weight: np.ndarray
    bias: np.ndarray
    scale: np.ndarray
    rounding: Rounding
    input_zero_point: int = 0
    weight_zero_point: int = 0
    output_zero_point: int = 0
    low: int = INT8[0]
    high: int = INT8[-1]
    raw: bool = False

    def __post_init__(self) -> None:
        for name in _ARRAYS:
            array = np.array(getattr(self, name), copy=True, order="C")
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        self._check_arrays()
        self._check_integers()
        for multiplier in self.multipliers():
            if multiplier[1] not in _SHIFTS:
                raise self._error("scale must be at least 2**-104", multiplier)

    def _check_arrays(self) -> None:
        scale_dtypes = ("float32",) if self.rounding == Rounding.FLOAT32 else ("float32", "float64")
        for name, ndim, dtypes in (
            ("weight", 2, ("int8",)),
            ("bias", 1, ("int32",)),
            ("scale", 1, scale_dtypes),
        ):
            array = getattr(self, name)
            if array.dtype.name not in dtypes:
                raise self._error(f"{name} must be {' or '.join(dtypes)}", array.dtype.name)
            if array.ndim != ndim or not array.size:
                raise self._error(f"{name} must have {ndim} non-empty dimensions", array.shape)
        if self.bias.shape != (self.n,):
            raise self._error(f"bias must have shape ({self.n},)", self.bias.shape)
        if self.scale.shape not in ((self.n,), (1,)):
            raise self._error(f"scale must have shape ({self.n},) or (1,)", self.scale.shape)
        bad = self.scale[~(np.isfinite(self.scale) & (self.scale > 0))]
        if bad.size:
            raise self._error("scale must be finite and positive", float(bad[0]))

    def _check_integers(self) -> None:
        if self.rounding not in list(Rounding):
            raise self._error("rounding must be a Rounding", self.rounding)
        names = ("input_zero_point", "weight_zero_point", "output_zero_point", "low", "high")
        for name in names:
            value = getattr(self, name)
            if isinstance(value, bool) or int(value) != value or int(value) not in INT8:
                raise self._error(f"{name} must be in [-128, 127]", value)
            object.__setattr__(self, name, int(value))
        object.__setattr__(self, "rounding", Rounding(self.rounding))
        object.__setattr__(self, "raw", bool(self.raw))
        if self.low > self.high:
            raise self._error("low must not exceed high", (self.low, self.high))
        if self.raw and self.bias.any():
            raise self._error("bias of a raw layer must be zero", int(self.bias[self.bias != 0][0]))
        if self.raw and self.input_zero_point:
            raise self._error("input_zero_point of a raw layer must be 0", self.input_zero_point)

    def _error(self, what: str, value: object) -> ValueError:
        return ValueError(f"Layer {self.name!r}: {what}, not {value!r}")

    @property
    def k(self) -> int:
        """Input channels."""
        return self.weight.shape[0]

    @property
    def n(self) -> int:
        """Output channels."""
        return self.weight.shape[1]

    def multipliers(self) -> tuple[tuple[int, int], ...]:
        """Return multiplier and shift of each entry of ``scale``, as channel records hold them."""
        convert = float32_multiplier if self.rounding == Rounding.FLOAT32 else quantize_multiplier
        return tuple(convert(float(scale)) for scale in self.scale)

    def conv(self, source: str, target: str) -> Conv:
        """Return the layer as a convolution of pixels: the same bits."""
        requantization = None
        if not self.raw:
            multiplier, shift = np.array(self.multipliers(), np.int64).T
            requantization = Requantization(
                multiplier=np.ascontiguousarray(multiplier),
                shift=np.ascontiguousarray(shift),
                bias=self.bias,
                rounding=self.rounding,
                zero_point=self.output_zero_point,
                low=self.low,
                high=self.high,
            )
        return Conv(
            name=self.name,
            inputs=(source,),
            output=target,
            weight=self.weight[None, None],
            requantization=requantization,
            input_zero_point=self.input_zero_point,
            weight_zero_point=self.weight_zero_point,
        )

    def dump(self) -> str:
        """Return one line of text."""
        scales = f"{self.scale.min():.4g}..{self.scale.max():.4g}x{self.scale.size}"
        output = "raw int32" if self.raw else f"{self.rounding.name.lower()} scale {scales}"
        points = f"{self.input_zero_point}/{self.weight_zero_point}/{self.output_zero_point}"
        return (
            f"dense {self.name}: {self.k} -> {self.n}, {output}, zero points {points}, "
            f"clamp [{self.low}, {self.high}]"
        )


@dataclass(frozen=True, eq=False)
class Network:
    """A chain of dense layers.

    Parameters
    ----------
    name : str
        Name of the network.
    layers : tuple of Dense
        Layers, each fed by the one before.
    input_dtype : str
        ``int8`` or ``uint8``; outputs have it too, unless the last layer is raw.

    Raises
    ------
    ValueError
        If the layers do not form a chain.

    Examples
    --------
    >>> eye = Dense(
    ...     name="eye",
    ...     weight=np.eye(4, dtype=np.int8),
    ...     bias=np.zeros(4, np.int32),
    ...     scale=np.ones(1, np.float32),
    ...     rounding=Rounding.FLOAT32,
    ... )
    >>> print(Network("copy", (eye,)).dump())
    network copy: int8[4] -> int8[4], 16 weights
      dense eye: 4 -> 4, float32 scale 1..1x1, zero points 0/0/0, clamp [-128, 127]
    """

    name: str
    layers: tuple[Dense, ...]
    input_dtype: str = "int8"

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", tuple(self.layers))
        if not self.layers:
            raise ValueError(f"Network {self.name!r} must have at least one layer, not 0")
        if self.input_dtype not in ("int8", "uint8"):
            raise ValueError(
                f"Network {self.name!r}: input_dtype must be int8 or uint8, "
                f"not {self.input_dtype!r}"
            )
        names = [layer.name for layer in self.layers]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"Layer {name!r}: name must be unique in network {self.name!r}")
        for producer, layer in zip(self.layers, self.layers[1:], strict=False):
            if producer.raw:
                raise ValueError(f"Layer {producer.name!r}: only the last layer may be raw")
            for what, value, expected in (
                ("input channels", layer.k, producer.n),
                ("input_zero_point", layer.input_zero_point, producer.output_zero_point),
            ):
                if value != expected:
                    raise ValueError(
                        f"Layer {layer.name!r}: {what} must be {expected} as in layer "
                        f"{producer.name!r}, not {value}"
                    )

    @property
    def k(self) -> int:
        """Channels of the input."""
        return self.layers[0].k

    @property
    def n(self) -> int:
        """Channels of the output."""
        return self.layers[-1].n

    @property
    def output_dtype(self) -> str:
        """``int32`` if the last layer is raw, else that of the input."""
        return "int32" if self.layers[-1].raw else self.input_dtype

    def graph(self, batch: int = 1) -> LayerGraph:
        """Return the integer layers that the compiler takes.

        Parameters
        ----------
        batch : int
            Input vectors of a run; tensors are matrices [batch, channels].
        """
        if batch < 1:
            raise ValueError(f"Batch must be at least 1, not {batch!r}")
        names = ["input", *(f"after {layer.name}" for layer in self.layers[:-1]), "output"]
        pairs = zip(self.layers, pairwise(names), strict=True)
        images = {"input": Image((batch, 1, self.k))}
        for name, layer in zip(names[1:], self.layers, strict=True):
            images[name] = Image((batch, 1, layer.n), "int32" if layer.raw else "int8")
        ends = frozenset({"input", "output"})
        unsigned = ends if self.input_dtype == "uint8" else frozenset()
        return LayerGraph(
            name=self.name,
            layers=tuple(layer.conv(*pair) for layer, pair in pairs),
            images=images,
            inputs=("input",),
            outputs=("output",),
            unsigned=unsigned - {"output"} if self.layers[-1].raw else unsigned,
            matrices=ends,
        )

    def dump(self) -> str:
        """Return the network as text, a line a layer."""
        weights = sum(layer.weight.size for layer in self.layers)
        title = (
            f"network {self.name}: {self.input_dtype}[{self.k}] -> "
            f"{self.output_dtype}[{self.n}], {weights} weights"
        )
        return "\n".join([title, *(f"  {layer.dump()}" for layer in self.layers)])

    def save(self, path: str | Path) -> None:
        """Write a network file (.npz); equal networks give equal bytes."""
        metadata = {
            "format": _FORMAT,
            "version": _FORMAT_VERSION,
            "name": self.name,
            "input_dtype": self.input_dtype,
            "layers": [
                {
                    field.name: getattr(layer, field.name)
                    for field in dataclasses.fields(layer)
                    if field.name not in _ARRAYS
                }
                for layer in self.layers
            ],
        }
        arrays = {
            f"{i}.{name}": getattr(layer, name)
            for i, layer in enumerate(self.layers)
            for name in _ARRAYS
        }
        # A file object, because savez appends .npz to a name that lacks it.
        with Path(path).open("wb") as file:
            np.savez_compressed(file, network=np.array(json.dumps(metadata)), **arrays)

    @classmethod
    def load(cls, path: str | Path) -> "Network":
        """Read a network file.

        Raises
        ------
        ValueError
            If the file is not a whole network file of this version.
        """
        data = io.BytesIO(Path(path).read_bytes())
        try:
            with np.load(data) as archive:
                metadata = json.loads(str(archive["network"]))
                if metadata["format"] != _FORMAT:
                    raise ValueError(f"format {metadata['format']!r}")
                if metadata["version"] != _FORMAT_VERSION:
                    raise ValueError(f"version {metadata['version']!r}, this is {_FORMAT_VERSION}")
                layers = tuple(
                    Dense(
                        **(values | {"rounding": Rounding(values["rounding"])}),
                        **{name: archive[f"{i}.{name}"] for name in _ARRAYS},
                    )
                    for i, values in enumerate(metadata["layers"])
                )
                return cls(metadata["name"], layers, metadata["input_dtype"])
        except _UNREADABLE as error:
            raise ValueError(f"{path} is not a tpulite network file: {error}") from error
