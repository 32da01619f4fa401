"""Where the parts of a coefficient tensor lie."""

from dataclasses import dataclass

from tpulite.layout.bm1684x.spec import ConvSpec

REQUANT_BYTES = 12
"""Bytes RQ of the requantization of a channel: three int32."""


def align(value: int, unit: int) -> int:
    """Return the next multiple of ``unit``."""
    return -(-value // unit) * unit


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Offsets and widths, in bytes, of the coefficient tensor ``[1, lanes, 1, w5]`` of int8.

    Channel c lives in lane ``c mod N``, slot ``c div N``. A lane is requantization at byte 0, bias
    at ``bias_off``, filter at ``filter_off``; each part holds the lane's slots one after the other.
    Everything between is zero.

    Parameters
    ----------
    lanes : int
        ``min(oc, N)``.
    slots : int
        ``S = ceil(oc / N)``.
    requant_stride : int
        From slot to slot of the requantization: ``align(RQ, E)``, RQ = 12.
    w1 : int
        Filter of one channel: ``ceil(ic / P) * kh * kw * P``; depthwise ``kh * kw``.
    w2 : int
        Filter of a lane: ``S * w1``.
    w3 : int
        Bias of a lane: ``4 * S``; 0 without bias.
    w4 : int
        Requantization of a lane: ``(S - 1) * align(RQ, E) + RQ``.
    bias_off : int
        ``align(w4, 4)``.
    filter_off : int
        ``align(bias_off + w3, E)``; depthwise not aligned.
    w5 : int
        A whole lane: ``filter_off + w2``.
    """

    lanes: int
    slots: int
    requant_stride: int
    w1: int
    w2: int
    w3: int
    w4: int
    bias_off: int
    filter_off: int
    w5: int

    @classmethod
    def of(cls, spec: ConvSpec) -> "Manifest":
        """Return the manifest of a convolution.

        Raises
        ------
        ValueError
            If it is not int8: other types have no coefficient tensor.

        Examples
        --------
        >>> manifest = Manifest.of(ConvSpec(oc=128, ic=64, kh=3, kw=3))
        >>> manifest.w4, manifest.bias_off, manifest.filter_off, manifest.w5
        (76, 76, 128, 1280)
        """
        if spec.dtype != "int8":
            raise ValueError(f"Only int8 filters have a coefficient tensor, not {spec.dtype}")
        lanes, unit = spec.geometry.lanes, spec.geometry.lane_bytes
        slots = -(-spec.oc // lanes)
        w2 = slots * spec.w1
        w3 = 4 * slots if spec.has_bias else 0
        w4 = (slots - 1) * align(REQUANT_BYTES, unit) + REQUANT_BYTES
        bias_off = align(w4, 4)
        filter_off = bias_off + w3 if spec.depthwise else align(bias_off + w3, unit)
        return cls(
            lanes=min(spec.oc, lanes),
            slots=slots,
            requant_stride=align(REQUANT_BYTES, unit),
            w1=spec.w1,
            w2=w2,
            w3=w3,
            w4=w4,
            bias_off=bias_off,
            filter_off=filter_off,
            w5=filter_off + w2,
        )

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Shape of the coefficient tensor."""
        return 1, self.lanes, 1, self.w5

    @property
    def nbytes(self) -> int:
        """Bytes of the coefficient tensor."""
        return self.lanes * self.w5
