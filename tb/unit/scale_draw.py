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
    scales = [_scale_anyhow, _scale_to_tie, *[_scale_sparse] * 2, *[_scale_beside_tie] * 4]
    if rounding == Rounding.FLOAT32:
        scales += [_scale_sticky, *[_scale_beside_unit] * 4]
    scale = random.choice(scales)
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
    shift = point - top + random.choice([random.randint(-1, 9), random.randint(10, 40)])
    return random.choice([acc, -acc, ~acc]), multiplier, max(-128, min(shift, 127))


def _scale_sticky(_rounding: Rounding) -> tuple[int, int, int]:
    """Draw a sum beyond the middle of two significands by one bit, which makes the result odd."""
    halves = 4 * random.randrange(64) + 1
    significand = halves << (24 - halves.bit_length())
    exponent = random.randint(2, 7)
    acc = significand << exponent | 1 << (exponent - 1)
    acc += random.choice([-1, 0, 1, 1]) << random.randrange(exponent - 1)
    multiplier_bits = random.randrange(31)
    shift = halves.bit_length() - 25 - exponent - multiplier_bits
    return random.choice([acc, -acc]), 1 << multiplier_bits, shift


def _scale_beside_unit(_rounding: Rounding) -> tuple[int, int, int]:
    """Draw a product half a unit of its 24 bits from a tie, or that and a power of two."""
    bits = random.randint(2, 31)
    sign, rest = random.choice([-1, 1]), random.choice([-1, 0, 1]) << random.randrange(bits)
    small = large = half = 1
    for _ in range(8):
        small = random.randrange(1, 256, 2)
        turn = (1 << (bits - 1)) + sign * half + rest
        large = turn * pow(small, -1, 1 << bits) % (1 << bits)
        half, guess = 1 << max(0, (small * large).bit_length() - 25), half
        if half == guess:
            break
    places = random.randint(0, 22)
    factors = [(small << places, large), (large, small << places)]
    acc, multiplier = random.choice(factors)
    return random.choice([acc, -acc]), multiplier, -bits - places


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
