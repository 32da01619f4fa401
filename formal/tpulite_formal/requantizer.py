"""Requantizer lane: each rounding rule for every product, shift, zero point and clamp.

The lane is taken apart at two of its registers, so that no solver has to understand a multiplier.
What enters the multiplier is compared with the accumulator, and the result with the product,
whatever that is: registers of the product may have any value where the induction begins. That
summands of the product add up to it is left to the benches.
"""

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Mux, Signal, Value, signed

from tpulite.arch.numerics import Rounding
from tpulite_formal.harness import Harness
from tpulite_formal.proofs import Proof
from tpulite_rtl.vpu.requantizer_lane import STAGES, RequantizerLane

__all__ = ["PROOFS"]

_DOUBLING = (Rounding.TFLITE, Rounding.RUY)
_AWAY = (Rounding.TFLITE, Rounding.AWAY)
_DROPPED = 31
"""Bits that the first of two roundings takes away."""
_SIGNIFICANT = 24
"""Bits of a float32's mantissa."""
_FAR = 9
"""Integers of more bits than this are outside of every clamp, whatever the zero point."""


def _harness(roundings: Sequence[Rounding]) -> Harness:
    """Return a harness for a lane with a sum in each stage."""
    dut = RequantizerLane(roundings)
    h = Harness(dut)
    h.assume(dut.valid.all())
    h.assume(Cat(dut.rounding == rounding for rounding in roundings).any())
    full = Signal(STAGES - 1, name="full", reset_less=True)  # stages that a sum has reached
    h.m.d.sync += full.eq(Cat(Const(1, 1), full))

    def later(value: Value, cycles: int, name: str) -> Value:
        for cycle in range(cycles):
            one = Signal(value.shape(), name=f"{name}_{cycle}", reset_less=True)
            h.m.d.sync += one.eq(value)
            value = one
        return value

    def prove(stage: int, name: str, text: str, condition: Value) -> None:
        h.prove(name, text, ~full[stage - 1] | condition)

    acc = later((dut.sum + dut.bias)[:32].as_signed(), 1, "acc")
    shift, rounding = dut.shift, dut.rounding
    product, exponent = h.register("product_4"), Const(0, 1)
    entered = h.register("operand_2")
    if Rounding.FLOAT32 in roundings:
        exponent = h.register("exponent_2")
        entered = (entered + h.register("carry_2")) << exponent
    prove(
        2,
        "operand",
        "multiplied is the accumulator with its bias: shifted left and wrapped if it is rounded "
        "twice, with 24 significant bits for float32",
        entered == later(_operand(h, roundings, rounding, acc, shift), 1, "operand"),
    )

    # Lemmas that make the induction short: how far to shift is the same in each stage.
    base = 0 if set(roundings) <= set(_DOUBLING) else _DROPPED
    for stage in (2, 3, 4):
        shift, rounding = later(shift, 1, f"shift_{stage}"), later(rounding, 1, f"rule_{stage}")
        exponent = exponent if stage == 2 else later(exponent, 1, f"exponent_{stage}")
        whole = _one_of(rounding, _DOUBLING) & (shift >= 0)
        distance = Mux(rounding == Rounding.FLOAT32, 0, base) - Mux(whole, 0, shift)
        limit = len(product) + _FAR
        moved = distance - exponent + _FAR
        right = Mux(moved < 0, 0, Mux(moved > limit, limit, moved))
        rules = Cat(
            rounding == Rounding.FLOAT32,
            rounding == Rounding.TFLITE,
            _one_of(rounding, _AWAY),
            whole,
        )
        held = h.register(f"{'distance' if stage == 2 else 'right'}_{stage}")
        prove(
            stage,
            f"distance_{stage}",
            f"how far the product is shifted right, and how it is rounded, in stage {stage}",
            (held == (distance if stage == 2 else right))
            & (h.register(f"flags_{stage}")[:4] == rules),
        )

    exact: Value = Const(0, 1)
    for one in roundings:
        if one == Rounding.FLOAT32:
            quotient = _float_quotient(h, product, exponent + shift)
        else:
            high = product >> base if one in _DOUBLING else product
            quotient = _quotient(h, one, high, shift)
        exact = Mux(rounding == one, quotient, exact)
    rounded = later(exact, 1, "quotient")
    integer = (h.register("doubled_5") >> 1) + h.register("up_5")
    far = 1 << _FAR - 1
    prove(
        5,
        "rounded",
        "the product is shifted and rounded, or is beyond every clamp",
        (integer == rounded)
        | (integer >= far - 1) & (rounded >= far - 1)
        | (integer <= -far) & (rounded <= -far),
    )
    total = later(rounded + dut.zero_point, 1, "total")
    raised = Mux(total < dut.low, dut.low, total)
    prove(
        6,
        "result",
        "then moved by the zero point and clamped",
        dut.o == Mux(raised > dut.high, dut.high, raised),
    )
    h.cover("middle", "a result inside of the clamp", (dut.o > dut.low) & (dut.o < dut.high))
    return h


def _one_of(rounding: Value, some: Sequence[Rounding]) -> Value:
    return Cat(rounding == one for one in some).any()


def _operand(
    h: Harness, roundings: Sequence[Rounding], rounding: Value, acc: Value, shift: Value
) -> Value:
    """Return what is multiplied."""
    left = Mux(shift < 0, 0, shift)
    doubled = Mux(left < 32, (acc << left[:5])[:32].as_signed(), 0)
    result = Mux(_one_of(rounding, _DOUBLING), doubled, acc)
    if Rounding.FLOAT32 in roundings:
        result = Mux(rounding == Rounding.FLOAT32, _significant(h, acc, "acc"), result)
    return result


def _quotient(h: Harness, rounding: Rounding, product: Value, shift: Value) -> Signal:
    """Return a product by a power of two, rounded, saturated outside of every clamp."""
    distance = -shift if rounding in _DOUBLING else _DROPPED - shift
    if rounding in _DOUBLING:
        distance = Mux(distance < 0, 0, distance)
    longest = len(product) + 2  # to 0, of negative numbers as well
    right, left = _shifts(h, distance, longest)
    # One bit more on the right is the half, and what is below it says whether it is a tie.
    wide = Signal(signed(longest + 2), name="wide")
    floor, half = Signal(signed(longest + 1), name="floor"), Signal(name="half")
    h.m.d.comb += [
        wide.eq(Cat(Const(0, 1), product).as_signed() >> right),
        half.eq(wide[0]),
        floor.eq(wide >> 1),
    ]
    under = Cat((right > place + 1) for place in range(len(product)))
    tie = ~(product.as_unsigned() & under).any()
    up = half & ~(tie & (product < 0)) if rounding in _AWAY else half
    return _saturated(h, (floor + up) << left)


def _float_quotient(h: Harness, product: Signal, exponent: Value) -> Signal:
    """Return a product by a power of two, rounded to 24 significant bits and then to an integer."""
    negative = product < 0
    size = Signal(len(product), name="size")
    h.m.d.comb += size.eq(Mux(negative, -product, product))
    mantissa, taken = _rounded_to_24(h, size, "product")
    distance = -(exponent + taken)
    longest = _SIGNIFICANT + 3
    right, left = _shifts(h, distance, longest)
    exact = _half_even(h, mantissa, right, "integer") << left
    return _saturated(h, Mux(negative, -exact, exact))


def _shifts(h: Harness, distance: Value, longest: int) -> tuple[Signal, Signal]:
    """Return how far to shift right, and left: no farther than matters."""
    right, left = Signal(range(longest + 1), name="right"), Signal(range(_FAR + 2), name="left")
    h.m.d.comb += [
        right.eq(Mux(distance < 0, 0, Mux(distance > longest, longest, distance))),
        left.eq(Mux(distance > 0, 0, Mux(distance < -_FAR - 1, _FAR + 1, -distance))),
    ]
    return right, left


def _significant(h: Harness, acc: Signal, name: str) -> Value:
    """Return a number rounded to 24 significant bits, half to even."""
    size = Signal(len(acc), name=f"{name}_size")
    h.m.d.comb += size.eq(Mux(acc < 0, -acc, acc))
    mantissa, taken = _rounded_to_24(h, size, name)
    return Mux(acc < 0, -(mantissa << taken), mantissa << taken)


def _rounded_to_24(h: Harness, size: Signal, name: str) -> tuple[Signal, Signal]:
    """Return a natural number rounded to 24 significant bits, and the bits that this takes away."""
    taken = Signal(range(len(size) - _SIGNIFICANT + 1), name=f"{name}_taken")
    for length in range(_SIGNIFICANT + 1, len(size) + 1):
        with h.m.If(size[length - 1]):
            h.m.d.comb += taken.eq(length - _SIGNIFICANT)
    return _half_even(h, size, taken, name), taken


def _half_even(h: Harness, value: Signal, right: Signal, name: str) -> Signal:
    """Return a natural number shifted right, rounded half to even."""
    twice, floor = Signal(len(value) + 1), Signal(len(value))
    h.m.d.comb += [twice.eq(Cat(Const(0, 1), value) >> right), floor.eq(twice >> 1)]
    under = Cat(right > place + 1 for place in range(len(value)))
    up = twice[0] & ((value & under).any() | floor[0])
    result = Signal(len(value) + 1, name=f"{name}_rounded")
    h.m.d.comb += result.eq(floor + up)
    return result


def _saturated(h: Harness, value: Value) -> Signal:
    far = 1 << _FAR
    result = Signal(signed(_FAR + 2), name="quotient")
    h.m.d.comb += result.eq(Mux(value > far, far, Mux(value < -far, -far, value)))
    return result


def _proof(case: str, roundings: Sequence[Rounding]) -> Proof:
    return Proof(
        "vpu.requantizer_lane", case, lambda: _harness(roundings), inductive=True, seconds=600
    )


PROOFS = [
    _proof("all roundings", list(Rounding)),
    _proof("tflite and ruy", _DOUBLING),  # the product is cut after the first of two roundings
    _proof("float32", [Rounding.FLOAT32]),
]
