"""What a DSP48E1 of a Xilinx 7-series part has: 25 x 18, a pre-adder, a sum, and registers."""

from amaranth.hdl import (
    Cat,
    ClockSignal,
    Const,
    Instance,
    Module,
    ResetSignal,
    Signal,
    Value,
    signed,
)

from tpulite_rtl.lib.multiplier import multiply_add
from tpulite_rtl.lib.product_pieces import cut, joined

__all__ = ["held_product_sum", "product_rows"]

_A_BITS, _B_BITS, _C_BITS, _D_BITS = 30, 18, 48, 25
_SUMMED = 0b011_01_01
"""OPMODE: the product and C."""

_WIDE, _NARROW = 24, 17
"""Bits of unsigned operands of the multiplier; signed ones have one more."""

_SMALL = 15
"""A product of so few bits takes fewer lookup tables than are worth a cell."""


def held_product_sum(
    m: Module,
    *,
    weight: Value,
    weight_enable: Value,
    swap: Value,
    operands: tuple[Value, Value],
    second: Value,
    c: Value,
) -> Signal:
    """Return ``weight held * operand + c`` of signed values, as wide as ``c``, a cycle later.

    The weight lies in the two registers of port B: ``weight_enable`` writes the first, ``swap``
    moves it on, and already multiplies by it. The pre-adder chooses the operand: port A or D alone.

    Parameters
    ----------
    m : Module
        Gets the instance, in the domain ``sync``, whose reset clears the sum.
    weight : Value
        At most 18 bits.
    weight_enable, swap : Value
        A bit each. In the same cycle the swap takes what was there before.
    operands : tuple of Value
        Two values of at most 24 bits.
    second : Value
        A bit: the second of them is the factor.
    c : Value
        At most 48 bits.
    """
    a, d = operands
    one, zero = Const(1, 1), Const(0, 1)
    sums = Signal(signed(_C_BITS))
    inputs = {
        "A": _extended(a, _A_BITS),
        "B": _extended(weight, _B_BITS),
        "C": _extended(c, _C_BITS),
        "D": _extended(d, _D_BITS),
        "CEB1": weight_enable,
        "CEB2": swap,
        # B1 instead of B2; the pre-adder adds; with D; without A; A2.
        "INMODE": Cat(zero, second, second, zero, swap),
        "OPMODE": Const(_SUMMED, 7),
        "CLK": ClockSignal(),
        "RSTP": ResetSignal(allow_reset_less=True),
        "CEP": one,
    }
    idle = {
        **dict.fromkeys(("ACIN", "BCIN", "PCIN", "ALUMODE", "CARRYINSEL"), 0),
        **dict.fromkeys(("CARRYCASCIN", "CARRYIN", "MULTSIGNIN"), 0),
        **dict.fromkeys(("CEA1", "CEA2", "CEAD", "CEALUMODE", "CEC", "CECARRYIN"), 0),
        **dict.fromkeys(("CECTRL", "CED", "CEINMODE", "CEM"), 0),
        **dict.fromkeys(("RSTA", "RSTALLCARRYIN", "RSTALUMODE", "RSTB", "RSTC"), 0),
        **dict.fromkeys(("RSTCTRL", "RSTD", "RSTINMODE", "RSTM"), 0),
    }
    widths = {"ACIN": 30, "BCIN": 18, "PCIN": 48, "ALUMODE": 4, "CARRYINSEL": 3}
    unregistered = ("A", "ACASC", "AD", "ALUMODE", "C", "CARRYIN", "CARRYINSEL", "D", "INMODE")
    m.submodules += Instance(
        "DSP48E1",
        **{f"p_{name}REG": 0 for name in (*unregistered, "M", "OPMODE")},
        p_BREG=2,
        p_BCASCREG=2,
        p_PREG=1,
        p_USE_DPORT="TRUE",
        **{f"i_{name}": Const(value, widths.get(name, 1)) for name, value in idle.items()},
        **{f"i_{name}": value for name, value in inputs.items()},
        o_P=sums,
    )
    total = Signal(signed(len(c)))
    m.d.comb += total.eq(sums)
    return total


def product_rows(m: Module, a: Value, b: Value, *, platform: object) -> list[Value]:
    """Return values whose sum is ``a * b``, for synthesis, which infers cells of 25 x 18.

    Of 32 and 31 bits they are three such products and one of 8 x 7 in logic, in three rows.

    Parameters
    ----------
    m : Module
        Gets the logic.
    a : Value
        Signed.
    b : Value
        Unsigned.
    platform : object
        A :class:`tpulite.arch.build.Build`.
    """
    products = []
    for i, x in cut(a, _WIDE):
        for j, y in cut(b, _WIDE if len(x) <= _NARROW else _NARROW):
            one = x * y
            if len(one) <= _SMALL and x.shape().signed:
                factor, none = Cat(y, Const(0, 1)).as_signed(), Const(0, signed(len(one) + 1))
                total = multiply_add(m, x, factor, none, style="logic", platform=platform)
                one = total[: len(one)].as_signed()
            products.append((i + j, one))
    return joined(products)


def _extended(operand: Value, width: int) -> Value:
    """Return a signed operand as wide as a port."""
    return Cat(operand, operand[-1].replicate(width - len(operand)))
