"""Processing element: the psum that passes plus weight times activation, in every cycle.

The harness multiplies with Yosys' own multiplier, as the component does in the style ``dsp``: what
is proven is which operands, when, and the sum. No solver finds in minutes that the partial products
of the style ``logic`` are the same.
"""

from amaranth.hdl import Mux, Signal, signed

from tpulite_formal.harness import Harness
from tpulite_formal.proofs import Proof
from tpulite_rtl.mxu.processing_element import ACTIVATION_WIDTH, WEIGHT_WIDTH, ProcessingElement

__all__ = ["PROOFS"]

_PSUM_WIDTH = 20


def _harness() -> Harness:
    """Return a harness that holds the weights as it is told."""
    dut = ProcessingElement(psum_width=_PSUM_WIDTH, style="dsp")
    h = Harness(dut)
    told = Signal(signed(WEIGHT_WIDTH), name="weight_told", reset_less=True)
    held = Signal(signed(WEIGHT_WIDTH), name="weight_held", reset_less=True)
    used = Signal(signed(WEIGHT_WIDTH), name="weight_used")
    activation = Signal(signed(ACTIVATION_WIDTH), name="activation_used")
    h.m.d.comb += [
        used.eq(Mux(dut.i_first, told, held)),
        activation.eq(Mux(dut.i_depthwise, dut.column, dut.i_activation)),
    ]
    h.m.d.sync += held.eq(used)
    with h.m.If(dut.weight_enable):
        h.m.d.sync += told.eq(dut.weight)
    total = Signal(signed(_PSUM_WIDTH), name="total")
    h.m.d.sync += total.eq(dut.i_psum + used * activation)
    h.prove("sum", "the psum before, plus its weight times its activation", dut.o_psum == total)
    for name, text in (
        ("activation", "activations go right in a cycle"),
        ("first", "so does first"),
        ("depthwise", "and depthwise"),
    ):
        before = Signal.like(getattr(dut, f"i_{name}"), name=f"{name}_before")
        h.m.d.sync += before.eq(getattr(dut, f"i_{name}"))
        h.prove(name, text, getattr(dut, f"o_{name}") == before)
    h.cover("extreme", "the largest product", total == 1 << 15)
    return h


PROOFS = [Proof("mxu.processing_element", "dsp", _harness, quick=True)]
