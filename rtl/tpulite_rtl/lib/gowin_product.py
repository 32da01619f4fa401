"""Products of a Gowin GW5A's multipliers, which its open synthesis does not infer."""

from collections.abc import Iterator

from amaranth.hdl import Cat, Const, Instance, Module, Signal, Value, signed

from tpulite_rtl.lib.product_pieces import cut, joined

__all__ = ["product", "product_rows"]

_BITS = 12
"""Width of a signed operand of a ``MULT12X12``; an unsigned one has a bit less."""

_LOW = _BITS - 1


def product(m: Module, a: Value, b: Value) -> Value:
    """Return ``a * b``, as wide as both together, of a single ``MULT12X12`` without registers.

    Parameters
    ----------
    m : Module
        Gets the instance.
    a, b : Value
        Of at most 12 bits if signed, 11 if not.

    Raises
    ------
    ValueError
        If an operand is wider.
    """
    for operand in (a, b):
        if len(operand) + (not operand.shape().signed) > _BITS:
            raise ValueError(f"Operand of a MULT12X12 must not be {operand.shape()!r}")
    out = Signal(signed(2 * _BITS))
    m.submodules += Instance(
        "MULT12X12",
        i_A=_extended(a),
        i_B=_extended(b),
        i_CLK=Const(0, 2),
        i_CE=Const(0, 2),
        i_RESET=Const(0, 2),
        o_DOUT=out,
    )
    value = out[: len(a) + len(b)]
    return value.as_signed() if a.shape().signed or b.shape().signed else value


def product_rows(m: Module, a: Value, b: Value) -> list[Value]:
    """Return values whose sum is ``a * b``: products of pieces, side by side where they can be.

    Of 32 and 31 bits they are nine products in five rows.
    """
    return joined(_pieces(m, a, b))


def _pieces(m: Module, a: Value, b: Value) -> Iterator[tuple[int, Value]]:
    """Yield the products of pieces of both operands, with their places."""
    for i, x in cut(a, _LOW):
        for j, y in cut(b, _LOW):
            yield i + j, product(m, x, y)


def _extended(operand: Value) -> Value:
    """Return an operand as wide as a port."""
    fill = operand[-1] if operand.shape().signed else Const(0, 1)
    return Cat(operand, fill.replicate(_BITS - len(operand)))
