"""Terms: what a byte holds for all inputs at once, as a number of 64 bits.

An input that nobody knows is a random number. Sums, differences and products of terms are those of
their numbers, modulo 2**64. What is no polynomial, like rounding, is a random function of its terms
and parameters. Numbers of bytes have 40 random bits, so two sums that differ in a term, by a
coefficient below 2**8, are equal with a probability below 2**-32. Numbers that an int8 or int32 can
hold stand for themselves, so constants are computed as the machine does.
"""

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tpulite.arch.isa import Scaling
from tpulite.arch.numerics import INT8, Rounding
from tpulite.golden import ops
from tpulite.graph.layers import Pool, Requantization, Softmax

Array = NDArray[np.int64]

_LEAST = INT8[0]
_MARK = (1 << 24) - 1
_FIRST, _SECOND = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_SHIFT = np.uint64(33)


class Terms:
    """Random numbers and random functions of one validation."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._key = self._rng.integers(1 << 63, dtype=np.uint64)
        self._mirror = int(self._rng.integers(1 << 60, 1 << 61))
        self._maxima, self._clipped, self._words = _Table(), _Table(), _Table()

    def unknown(self, *shape: int) -> Array:
        """Return bytes that nobody knows."""
        return self._byte(self._rng.integers(-(1 << 63), 1 << 63, shape, dtype=np.int64))

    def function(self, name: str, *values: ArrayLike) -> Array:
        """Return a random function of terms and parameters, which broadcast."""
        state = np.atleast_1d(self._key ^ np.uint64(zlib.crc32(name.encode())))
        for value in values:
            number = np.atleast_1d(np.asarray(value, np.int64)).astype(np.uint64)
            state = _mixed(state + _mixed(number + self._key))
        return state.astype(np.int64)

    def flip(self, x: Array) -> Array:
        """Invert the top bit of bytes."""
        return np.where(_is_int8(x), x ^ _LEAST, self._mirror - x)

    def clip(self, x: Array, low: ArrayLike, high: ArrayLike) -> Array:
        """Clamp bytes; those that were clamped before are clamped to what both leave."""
        x, least, most = np.broadcast_arrays(x, *(np.asarray(end, np.int64) for end in (low, high)))
        inner, first, last = x, np.full(x.shape, INT8[0]), np.full(x.shape, INT8[-1])
        if (found := self._clipped.find(x)) is not None:
            here, (values, lows, highs) = found
            inner = np.where(here, values, x)
            first, last = np.where(here, lows, first), np.where(here, highs, last)
        least, most = np.clip(first, least, most), np.clip(last, least, most)
        whole = (least == INT8[0]) & (most == INT8[-1])
        if whole.all():
            return inner
        clipped = self._byte(self.function("clip", inner, least, most))
        known = _is_int8(inner) | (least == most)
        self._clipped.add(*(y[~known & ~whole] for y in (clipped, inner, least, most)))
        return np.where(whole, inner, np.where(known, np.clip(inner, least, most), clipped))

    def table(self, x: Array, table: NDArray) -> Array:
        """Look bytes up in 256 constants."""
        table = table.astype(np.int64)
        name = f"table {zlib.crc32(table.astype(np.int8).tobytes())}"
        found = table[np.where(_is_int8(x), x, 0) - _LEAST]
        return np.where(_is_int8(x), found, self._byte(self.function(name, x)))

    def sums(self, function: Callable[..., Array], x: Array, weight: Array, **how: Any) -> Array:
        """Return sums of products, as a function of windows makes them."""
        return function(x, weight, **how)

    def scale(
        self, x: Array, *, zero_point: int, multiplier: int, shift: int, scaling: Scaling
    ) -> Array:
        """Scale operands of a sum, as :func:`tpulite.golden.ops.scale_operand` does."""
        centered = x - zero_point
        if scaling == Scaling.EXACT:
            return centered * multiplier
        how = {"zero_point": zero_point, "multiplier": multiplier, "shift": shift}
        known = ops.scale_operand(np.where(_is_int8(x), x, 0), scaling=scaling, **how)
        return np.where(_is_int8(x), known, self.function("scale", centered, multiplier, shift))

    def requantize(self, sums: Array, record: Mapping[str, ArrayLike]) -> Array:
        """Make bytes of sums, by the fields of channel records, which broadcast."""
        rest = {name: np.asarray(value, np.int64) for name, value in record.items()}
        biased = sums + rest.pop("bias")
        clamp = [rest.pop(name) for name in ("low", "high")]
        rest = {name: np.broadcast_to(value, biased.shape) for name, value in rest.items()}
        result = self._byte(self.function("scale", biased, *(rest[name] for name in sorted(rest))))
        known = _is_int32(biased)
        if known.any():
            some = {name: value[known] for name, value in rest.items()}
            result[known] = ops.requantize(biased[known], bias=0, **some)
        same = (rest["multiplier"] == 1 << 30) & (rest["shift"] == 1) & (rest["zero_point"] == 0)
        same &= ~known & (self._byte(biased) == biased)
        return self.clip(np.where(same, biased, result), *clamp)

    def requantize_int16(self, sums: Array, record: Mapping[str, ArrayLike]) -> list[Array]:
        """Make upper and lower bytes of int16 of sums, by fields that broadcast."""
        rest = {name: np.asarray(value, np.int64) for name, value in record.items()}
        biased = sums + rest.pop("bias")
        fields = [np.broadcast_to(rest[name], biased.shape) for name in sorted(rest)]
        return [self._byte(self.function(name, biased, *fields)) for name in ("upper", "lower")]

    def requantized(self, sums: Array, how: Requantization | None) -> Array:
        """Make bytes of sums, as a layer says; of int16 pairs in front of the last axis."""
        if how is None:
            return sums
        names = ("bias", "multiplier", "shift", "rounding", "zero_point", "low", "high")
        record = {name: getattr(how, name) for name in names}
        if how.bits == 16:
            return np.stack(self.requantize_int16(sums, record), axis=-2)
        return self.requantize(sums, record)

    def average(self, sums: Array, counts: Array, layer: Pool) -> Array:
        """Divide sums by counts, as records say that are exact."""
        result = np.empty_like(sums)
        for count in np.unique(counts):
            here = counts == count
            result[here] = self.requantize(sums[here], _average(int(count), layer))
        return result

    def softmax(self, x: Array, layer: Softmax) -> Array:
        """Refuse: shares are no function of single terms."""
        raise NotImplementedError(f"{layer.title} cannot be validated")

    def words(self, sums: Array) -> Array:
        """Return the four bytes of each int32, along a new last axis."""
        known = ops.wrap32(np.where(_is_int32(sums), sums, 0)).astype("<i4")
        digits = known[..., None].view(np.int8).astype(np.int64)
        some = np.stack([self._byte(self.function("word", sums, i)) for i in range(4)], axis=-1)
        self._words.add(some[..., 0].reshape(-1), sums.reshape(-1))
        return np.where(_is_int32(sums)[..., None], digits, some)

    def numbers(self, data: Array) -> Array:
        """Return the int32 whose four bytes lie along the last axis; ValueError if that is none."""
        plain = np.where(_is_int8(data), data, 0).astype(np.int8).view("<i4").astype(np.int64)
        plain = plain[..., 0]
        if (found := self._words.find(data[..., 0])) is not None:
            here, (sums,) = found
            plain = np.where(here, sums, plain)
        if (self.words(plain) != data).any():
            raise ValueError("bytes of different numbers are taken for one")
        return plain

    def maximum(self, x: Array) -> Array:
        """Return the largest bytes along the last axis: as sets, in which order does not count."""
        leaves = self._leaves(x)
        constants = np.where(_is_int8(leaves), leaves, _LEAST).max(axis=-1, keepdims=True)
        leaves = np.sort(np.where(_is_int8(leaves), constants, leaves), axis=-1)
        again = np.zeros(leaves.shape, bool)
        again[..., 1:] = leaves[..., 1:] == leaves[..., :-1]
        counted = ~again & (leaves != _LEAST)
        count = counted.sum(axis=-1)
        members = np.where(counted, self.function("member", leaves), 0).sum(axis=-1)
        single = np.where(counted, leaves, 0).sum(axis=-1)
        result = self._byte(self.function("maximum", members))
        result = np.where(count == 0, _LEAST, np.where(count == 1, single, result))
        sets = np.flatnonzero(count > 1)
        if sets.size:
            kept = np.where(again, _LEAST, leaves).reshape(-1, leaves.shape[-1])[sets]
            self._maxima.add(result.reshape(-1)[sets], *kept.T)
        return result

    def _leaves(self, x: Array) -> Array:
        """Replace maxima along the last axis by what they are the largest of."""
        if (found := self._maxima.find(x)) is None:
            return x
        here, leaves = found
        members = np.where(here[..., None], np.moveaxis(leaves, 0, -1), _LEAST)
        members = members.reshape(*x.shape[:-1], -1)
        return np.concatenate([np.where(here, _LEAST, x), members], axis=-1)

    def _byte(self, x: Array) -> Array:
        """Mark numbers as those of an int8: the lowest bits are a function of the others.

        A sum of terms is as good as never marked, so that what clamps it is not taken for nothing.
        """
        rest = x & ~_MARK
        return rest | (self.function("mark", rest) & _MARK)


def _average(count: int, layer: Pool) -> dict:
    """Return the record of an exact average: the reciprocal of 31 bits, rounded up.

    Rounding half away from zero, its error must not reach the next half.
    """
    bits = next(n for n in range(30, 64) if -(-(1 << n) // count) >= 1 << 30)
    multiplier = -(-(1 << bits) // count)
    largest = 255 if layer.offset else 128
    assert 2 * count * largest * (multiplier * count - (1 << bits)) < 1 << bits
    return {
        "bias": layer.offset * count,
        "multiplier": multiplier,
        "shift": 31 - bits,
        "rounding": Rounding.AWAY,
        "zero_point": -layer.offset,
        "low": layer.low,
        "high": layer.high,
    }


class _Table:
    """What terms were made from: rows of values, the shorter ones filled up."""

    def __init__(self) -> None:
        self._parts: list[tuple[Array, Array]] = []
        self._sorted = True

    def add(self, terms: Array, *columns: Array) -> None:
        """Add terms and the values of each."""
        if terms.size:
            self._parts.append((terms, np.stack(columns)))
            self._sorted = False

    def find(self, x: Array) -> tuple[NDArray[np.bool_], Array] | None:
        """Return which terms are there, and their columns; None if there is none."""
        if not self._parts:
            return None
        if not self._sorted:
            self._parts, self._sorted = [self._joined()], True
        ((terms, columns),) = self._parts
        place = np.minimum(np.searchsorted(terms, x), terms.size - 1)
        here = terms[place] == x
        return (here, columns[:, place]) if here.any() else None

    def _joined(self) -> tuple[Array, Array]:
        width = max(len(columns) for _, columns in self._parts)
        rows = [
            np.pad(columns, ((0, width - len(columns)), (0, 0)), constant_values=_LEAST)
            for _, columns in self._parts
        ]
        every = np.concatenate([terms for terms, _ in self._parts])
        terms, first = np.unique(every, return_index=True)
        return terms, np.concatenate(rows, axis=1)[:, first]


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = (x ^ (x >> _SHIFT)) * _FIRST
    x = (x ^ (x >> _SHIFT)) * _SECOND
    return x ^ (x >> _SHIFT)


def _is_int8(x: Array) -> NDArray[np.bool_]:
    return (x >= INT8[0]) & (x <= INT8[-1])


def _is_int32(x: Array) -> NDArray[np.bool_]:
    return (x >= -(1 << 31)) & (x < 1 << 31)
