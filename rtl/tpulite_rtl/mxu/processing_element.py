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
    instead of the one that passes. A column of a transposed weight tile passes as activations do, a
    bit wider, and the element keeps what passes when it is told to.

    Parameters
    ----------
    psum_width : int
        Width of a partial sum in bits.
    style : str
        How to multiply: ``dsp`` or ``logic``, see :func:`tpulite_rtl.lib.multiplier.multiply_add`.
    transposes : bool
        Whether transposed weight tiles pass.
    """

    def __init__(self, *, psum_width: int, style: str = "dsp", transposes: bool = False) -> None:
        self.psum_width = psum_width
        self.style = style
        self.transposes = transposes
        weights = {
            # From the left, to the right: the activation that passes, or a weight instead.
            "i_weight": In(signed(WEIGHT_WIDTH)),
            "o_weight": Out(signed(WEIGHT_WIDTH)),
            # Write it into the shadow register; not together with ``weight_enable``.
            "capture": In(1),
        }
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
                **(weights if transposes else {}),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        written, write = self.weight, self.weight_enable
        if self.transposes:
            written = Mux(self.capture, self.i_weight, self.weight)
            write = self.weight_enable | self.capture
            m.d.comb += self.o_activation.eq(self.o_weight[:ACTIVATION_WIDTH].as_signed())
        if self.style == "dsp" and Build.of(platform).target == "xilinx":
            total = held_product_sum(
                m,
                weight=written,
                weight_enable=write,
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
        with m.If(write):
            m.d.sync += shadow.eq(written)
        return m

    def _passes_on(self) -> list:
        """Return what hands the activation and its flags to the right."""
        passing = self.o_activation.eq(self.i_activation)
        return [
            self.o_weight.eq(self.i_weight) if self.transposes else passing,
            self.o_first.eq(self.i_first),
            self.o_depthwise.eq(self.i_depthwise),
        ]
