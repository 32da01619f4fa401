"""Tensor by tensor: where two runs of a network differ."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

__all__ = ["TensorDifference", "compare_tensors"]


@dataclass(frozen=True)
class TensorDifference:
    """How much a tensor differs, over all inputs that were compared.

    Parameters
    ----------
    name, node : str
        The tensor, and what computes it.
    elements : int
        How many elements were compared.
    different : int
        How many of them differ.
    largest : float
        Largest difference.
    first : tuple of int, optional
        Index of the first one that differs, with the number of the input in front.
    left_out : int
        How many elements were not compared: their channels are not computed.
    """

    name: str
    node: str
    elements: int
    different: int
    largest: float
    first: tuple[int, ...] | None
    left_out: int = 0


def compare_tensors(
    names: Mapping[str, str],
    runs: Iterable[tuple[Mapping[str, np.ndarray], Mapping[str, np.ndarray]]],
    channels: Mapping[str, np.ndarray] = MappingProxyType({}),
) -> tuple[TensorDifference, ...]:
    """Compare our tensors with those of an oracle.

    Parameters
    ----------
    names : mapping of str to str
        Tensors to compare, in the order in which they are computed, each with its node.
    runs : iterable of (mapping, mapping)
        For each input our tensors and the oracle's. Tensors that either lacks are left out.
    channels : mapping of str to ndarray of bool, [C]
        Of tensors whose channels are not all to be compared: which ones are.

    Returns
    -------
    tuple of TensorDifference
        One for each tensor that could be compared.

    Raises
    ------
    ValueError
        If dtypes or shapes of a tensor do not agree.
    """
    found: dict[str, TensorDifference] = {}
    for number, (ours, theirs) in enumerate(runs):
        for name, node in names.items():
            if name in ours and name in theirs:
                before = found.get(name, TensorDifference(name, node, 0, 0, 0.0, None))
                compared = channels.get(name, np.True_)
                found[name] = _add(before, number, ours[name], theirs[name], compared)
    return tuple(found[name] for name in names if name in found)


def _add(
    before: TensorDifference,
    number: int,
    ours: np.ndarray,
    theirs: np.ndarray,
    compared: np.ndarray | np.bool_,
) -> TensorDifference:
    if ours.dtype != theirs.dtype or ours.size != theirs.size:
        raise ValueError(
            f"Tensor {before.name!r} is {ours.dtype} of shape {list(ours.shape)} here and "
            f"{theirs.dtype} of shape {list(theirs.shape)} there"
        )
    theirs = theirs.reshape(ours.shape)
    # Not a number equals itself here: bits are compared, not values.
    equal = (ours == theirs) | ((ours != ours) & (theirs != theirs)) | ~compared
    elements = int(np.count_nonzero(np.broadcast_to(compared, ours.shape)))
    first, largest = before.first, before.largest
    if not equal.all():
        if first is None:
            first = (number, *(int(i) for i in np.argwhere(~equal)[0]))
        gaps = np.abs(ours[~equal].astype(np.float64) - theirs[~equal].astype(np.float64))
        largest = max(largest, float(gaps.max()))
    return TensorDifference(
        before.name,
        before.node,
        before.elements + elements,
        before.different + int(np.count_nonzero(~equal)),
        largest,
        first,
        before.left_out + ours.size - elements,
    )
