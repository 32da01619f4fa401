"""One multiplier of the systolic array."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tpulite.arch.build import Build
from tpulite_rtl.lib.dsp48 import held_product_sum
from tpulite_rtl.lib.multiplier import multiply_add

__all__ = ["ACTIVATION_WIDTH", "WEIGHT_WIDTH", "ProcessingElement"]

ACTIVATION_WIDTH = 8
"""Bits of an activation, signed."""

WEIGHT_WIDTH = 9
"""Bits of a weight after its zero point was subtracted, signed."""


class ProcessingElement(wiring.Component):
    """Multiply the activation that passes by the weight held, and add to the psum that passes.

    A vector with ``first`` swaps the shadow weight in and already uses it. Activation, flags and
    psum leave one cycle after they came. With ``depthwise`` the activation of the column counts
    instead of the one that passes.

    Parameters
    ----------
    psum_width : int
        Width of a partial sum in bits.
    style : str
        How to multiply: ``dsp`` or ``logic``, see :func:`tpulite_rtl.lib.multiplier.multiply_add`.
    """

    def __init__(self, *, psum_width: int, style: str = "dsp") -> None:
        self.psum_width = psum_width
        self.style = style
        super().__init__(
            {
                # From the left, to the right.
                "i_activation": In(signed(ACTIVATION_WIDTH)),
                "o_activation": Out(signed(ACTIVATION_WIDTH)),
                # First vector of a tile; moves with the activation.
                "i_first": In(1),
                "o_first": Out(1),
                # The sum is one of depthwise mode; moves with the activation.
                "i_depthwise": In(1),
                "o_depthwise": Out(1),
                # Activation of this column, the same for all its rows.
                "column": In(signed(ACTIVATION_WIDTH)),
                # From above, downwards.
                "i_psum": In(signed(psum_width)),
                "o_psum": Out(signed(psum_width)),
                # Weight of this column, for the row whose ``weight_enable`` is high.
                "weight": In(signed(WEIGHT_WIDTH)),
                # Write ``weight`` into the shadow register. May come in the very cycle of a swap,
                # which still takes the old shadow.
                "weight_enable": In(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        if self.style == "dsp" and Build.of(platform).target == "xilinx":
            total = held_product_sum(
                m,
                weight=self.weight,
                weight_enable=self.weight_enable,
                swap=self.i_first,
                operands=(self.i_activation, self.column),
                second=self.i_depthwise,
                c=self.i_psum,
            )
            m.d.comb += self.o_psum.eq(total)
            m.d.sync += self._passes_on()
            return m
        shadow = Signal(signed(WEIGHT_WIDTH), reset_less=True)
        active = Signal(signed(WEIGHT_WIDTH), reset_less=True)
        weight = Signal(signed(WEIGHT_WIDTH))
        activation = Signal(signed(ACTIVATION_WIDTH))
        m.d.comb += [
            weight.eq(Mux(self.i_first, shadow, active)),
            activation.eq(Mux(self.i_depthwise, self.column, self.i_activation)),
        ]
        psum = multiply_add(m, weight, activation, self.i_psum, style=self.style, platform=platform)
        m.d.sync += [
            active.eq(weight),
            *self._passes_on(),
            self.o_psum.eq(psum),
        ]
        with m.If(self.weight_enable):
            m.d.sync += shadow.eq(self.weight)
        return m

    def _passes_on(self) -> list:
        """Return what hands the activation and its flags to the right."""
        return [
            self.o_activation.eq(self.i_activation),
            self.o_first.eq(self.i_first),
            self.o_depthwise.eq(self.i_depthwise),
        ]
