"""A layer of a network, and its weights at each step of the layout."""

from dataclasses import dataclass

import numpy as np

from tpulite.layout.bm1684x import (
    Coefficients,
    ConvSpec,
    Manifest,
    pack_bias,
    pack_coefficients,
    pack_filter,
    to_bfloat16,
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Requant:
    """How an int8 layer makes integers of its sums, and what its command has to say of it.

    ``y = clip(round((sum + bias) * multiplier / 2**rshift) + zero_point, low, high)``, rounded
    once, half up. The sum is that of ``x * (filter - filter_zero_point)``, padded with
    ``input_zero_point``; the zero point of the input is a part of the bias that is laid out.

    Parameters
    ----------
    multiplier, rshift : ndarray of int32, [oc]
        Scale of each channel, ``multiplier / 2**rshift``.
    zero_point : int
        Of the output.
    input_zero_point, filter_zero_point : int
        Of input and filter.
    input_type, output_type : str
        ``int8`` or ``uint8``; zero points and bounds are integers of these types.
    low, high : int
        Bounds of the output: those of its type, or of its activation function.
    """

    multiplier: np.ndarray
    rshift: np.ndarray
    zero_point: int
    input_zero_point: int
    filter_zero_point: int
    input_type: str
    output_type: str
    low: int
    high: int

    def words(self) -> np.ndarray:
        """Return the three words of each channel, int32 ``[1, oc, 1, 3]``."""
        zero_points = np.full_like(self.multiplier, self.zero_point)
        return np.stack([self.multiplier, -self.rshift, zero_points], axis=1)[None, :, None]

    def offset(self, values: np.ndarray) -> np.ndarray:
        """Return what a filter ``[oc, ic, kh, kw]`` makes of the input's zero point, int32 [oc]."""
        centered = values.astype(np.int64) - self.filter_zero_point
        return (self.input_zero_point * centered.sum(axis=(1, 2, 3))).astype(np.int32)


@dataclass(frozen=True, kw_only=True, eq=False)
class Layer:
    """A convolution, depthwise or dense layer, and how its weights are laid out.

    Parameters
    ----------
    name, kind, source : str
        Its name; ``conv``, ``depthwise`` (one output channel for each input channel, and more than
        one) or ``dense``; what the file calls the operator.
    spec : ConvSpec
        The convolution that it is, and the machine; a dense layer is one of 1 x 1. It has a bias
        if the layer has one, or the input of an int8 layer a zero point.
    filter : ndarray, [oc, ic, kh, kw]
        Weights as the network has them: int8 or uint8; of float layers float16 if they are laid out
        as f16, else float32, rounded if they are laid out as bf16. ``ic`` are channels of a group.
    bias : ndarray of int32 or float32, [oc], optional
        Bias as the network has it.
    group : int
        Groups of channels; of a depthwise layer as many as channels.
    requant : Requant, optional
        Of an int8 layer.
    """

    name: str
    kind: str
    source: str
    spec: ConvSpec
    filter: np.ndarray
    bias: np.ndarray | None
    group: int = 1
    requant: Requant | None = None

    @property
    def manifest(self) -> Manifest | None:
        """Widths and offsets of the coefficients; None of a float layer."""
        return None if self.requant is None else Manifest.of(self.spec)

    def tensors(self) -> dict[str, np.ndarray]:
        """Return what lies in memory.

        Returns
        -------
        dict of str to ndarray
            ``coefficients``, int8 ``[1, lanes, 1, w5]``, of an int8 layer. Of a float layer
            ``filter``, ``[1, oc, 1, w1]`` or of f32 ``[1, oc, ic, kh * kw]``, and ``bias``, float32
            ``[1, oc, 1, 1]``, if there is one. bf16 is its bits, uint16.
        """
        if self.requant is not None:
            return {"coefficients": pack_coefficients(self._coefficients(), self.spec)}
        tensors = {"filter": pack_filter(self._stored(), self.spec)}
        if self.bias is not None:
            tensors["bias"] = pack_bias(self.bias, self.spec)
        return tensors

    def steps(self) -> dict[str, np.ndarray]:
        """Return all tensors of the document.

        Returns
        -------
        dict of str to ndarray
            ``step1/filter``, ``step1/bias``, ``step1/requant``, ``step2/filter``,
            ``step3/filter``, ``step3/bias``, ``step3/requant`` and ``step4/coefficients``; without
            those of a bias if none is laid out. Float layers end with ``step2/filter`` and
            ``step2/bias``.
        """
        final, steps = self.tensors(), {"step1/filter": self._stored()}
        if self.requant is None:
            if self.bias is not None:
                steps["step1/bias"] = self.bias
            return steps | {f"step2/{name}": values for name, values in final.items()}
        image, at = final["coefficients"], Manifest.of(self.spec)
        bias = self._coefficients().bias
        parts = {"filter": (at.filter_off, at.w2), "requant": (0, at.w4)}
        if bias is not None:
            steps["step1/bias"] = bias
            parts["bias"] = at.bias_off, at.w3
        steps["step1/requant"] = self.requant.words()
        steps["step2/filter"] = pack_filter(self._stored(), self.spec)
        for name, (start, size) in parts.items():
            steps[f"step3/{name}"] = image[..., start : start + size]
        return steps | {"step4/coefficients": image}

    def _stored(self) -> np.ndarray:
        """Return the filter in the type in which it is laid out."""
        if self.spec.dtype == "bf16":
            return to_bfloat16(self.filter)
        return self.filter.view(np.int8) if self.requant is not None else self.filter

    def _coefficients(self) -> Coefficients:
        """Return the constants of an int8 layer, the input's zero point in its bias."""
        assert self.requant is not None
        bias = None
        if self.spec.has_bias:
            zeros = np.zeros(self.spec.oc, np.int32)
            bias = (zeros if self.bias is None else self.bias) - self.requant.offset(self.filter)
        return Coefficients(
            filter=self._stored(),
            multiplier=self.requant.multiplier,
            rshift=self.requant.rshift,
            zero_point=np.full(self.spec.oc, self.requant.zero_point, np.int32),
            bias=bias,
        )
