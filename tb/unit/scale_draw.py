"""Random sums and records whose products lie where a rounding turns, or beside it."""

import random
from typing import Any

from tpulite.arch.numerics import INT8, INT32, Rounding, wrap32

__all__ = ["draw_scaled"]

# Accumulator, multiplier, point: products that are one larger than a tie of FLOAT32 plus all that
# its first rounding takes away. A tie just above 0, which has no other ones nearby.
_JUST_BEYOND = ((141591, 1987944103, 49), (567009, 1985682721, 51), (4208555, 2140211971, 54))


def draw_scaled(rounding: Rounding) -> tuple[int, dict[str, Any]]:
    """Return a sum and a record for it, most of them at a tie or beside it."""
    scale = random.choice(
        [_scale_anyhow, _scale_sparse, *[_scale_to_tie] * 2, *[_scale_beside_tie] * 4]
    )
    acc, multiplier, shift = scale(rounding)
    bias = random.choice([0, random.choice(INT32)])
    bounds = (random.choice(INT8), random.choice(INT8))  # in order or not
    low, high = random.choice([(INT8[0], INT8[-1])] * 3 + [bounds])
    return wrap32(acc - bias), {
        "bias": bias,
        "multiplier": multiplier,
        "shift": shift,
        "rounding": rounding,
        "zero_point": random.choice([0, 0, INT8[0], INT8[-1], random.choice(INT8)]),
        "low": low,
        "high": high,
    }


def _scale_anyhow(rounding: Rounding) -> tuple[int, int, int]:
    """Draw any accumulator, multiplier and shift, extremes often."""
    acc = random.choice([random.choice(INT32) >> random.randrange(32), INT32[0], INT32[-1], 0, -1])
    multipliers = [0, 1, 1 << 23, (1 << 24) - 1, 1 << 30, (1 << 31) - 1]
    multiplier = random.choice([random.getrandbits(random.randint(1, 31)), *multipliers])
    shifts = range(-60, 12) if rounding == Rounding.FLOAT32 else range(-31, 31)
    return acc, multiplier, random.choice([random.choice(shifts), random.randrange(-128, 128)])


def _scale_sparse(rounding: Rounding) -> tuple[int, int, int]:
    """Draw factors of one or two ones: few bits of the product, which may saturate, tell it all."""

    def draw() -> int:
        return (1 << random.randrange(31)) | random.choice([0, 1 << random.randrange(31)])

    acc, multiplier = draw(), draw()
    top = (acc * multiplier).bit_length()
    point = 0 if rounding == Rounding.FLOAT32 else 31
    shift = point - top + random.choice([random.randint(-1, 9), random.randint(0, 40)])
    return random.choice([acc, -acc, ~acc]), multiplier, max(-128, min(shift, 127))


def _scale_to_tie(rounding: Rounding) -> tuple[int, int, int]:
    """Draw a product at or beside what rounds either way; in and just outside int8."""
    if rounding == Rounding.FLOAT32 and random.random() < 0.02:
        acc, multiplier, point = random.choice(_JUST_BEYOND)
        return random.choice([acc, -acc]), multiplier, -point
    bits = random.choice([24, 31, random.randint(1, 31)])
    significant = random.getrandbits(bits) | 1 << (bits - 1)
    places = 0
    if bits <= 24 and random.random() < 0.5:
        places = random.randint(0, 31 - bits)
    acc = significant << places
    if bits == 24 and places and random.random() < 0.8:
        # Exactly, or nearly, between two numbers of 24 significant bits.
        acc += (1 << (places - 1)) + random.choice([-1, 0, 0, 1]) * (1 << random.randrange(places))
    halves = 2 * random.randrange(300) + 1
    multiplier_bits = random.choice([24, 24, 31, random.randint(1, 31)])
    point = max(1, acc.bit_length() + multiplier_bits - halves.bit_length() + 1)
    tie = halves << (point - 1)
    # Float32 rounds to 24 bits first: what is this close to a tie ends on it.
    close = 1 << max(tie.bit_length() - 25, 0)
    target = tie + random.choice([-close, 0, close])
    multiplier = max(0, target // acc + random.choice([0, 0, 1, -1]))
    multiplier = min(multiplier, (1 << 31) - 1)
    shift = (0 if rounding == Rounding.FLOAT32 else 31) - point
    return random.choice([acc, -acc]), multiplier, max(shift, -128)


def _scale_beside_tie(rounding: Rounding) -> tuple[int, int, int]:
    """Draw factors whose product is where a rounding turns, or beside it by any power of two.

    One is small and odd, so that there is another with which any bits are the lowest ones.
    """
    bits = random.choice([24, 31, random.randint(2, 31)])
    small = random.randrange(1, 256, 2)
    places = random.choice([0, 0, random.randint(0, 22)])
    turn = 1 << (bits - 1)
    if rounding == Rounding.TFLITE and places <= 30:
        turn -= random.choice([0, 1 << (30 - places)])  # what its first rounding adds
    if rounding == Rounding.FLOAT32:
        turn += random.choice([-1, 0, 1]) << max(0, bits - random.randint(17, 26))  # half a unit
    turn += random.choice([-1, 0, 1]) << random.randrange(bits)
    large = turn * pow(small, -1, 1 << bits) % (1 << bits)
    if random.random() < 0.5:
        acc, multiplier = small << places, large
    else:
        acc, multiplier = large, small << places
    shift = (0 if rounding == Rounding.FLOAT32 else 31) - bits - places
    return random.choice([acc, -acc]), multiplier, shift
