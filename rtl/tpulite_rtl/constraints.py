"""Timing constraints of the chip: SDC for most tools, LPF for an ECP5."""

from amaranth.lib.wiring import In

from tpulite_rtl.top import PORTS

__all__ = ["OUTSIDE", "lpf", "sdc"]

OUTSIDE = 0.4
"""Part of the clock period that an input has taken before it comes, and that an output still needs
behind the chip."""

_CLOCK, _RESET = "clk", "rst"
_TRACES = "trace_"


def sdc(period: float) -> str:
    """Return Synopsys Design Constraints for a clock period in ns.

    Raises
    ------
    ValueError
        If the period is not positive.
    """
    _check(period)
    inputs = [name for name, member in PORTS.items() if member.flow == In]
    outputs = [name for name in PORTS if name not in inputs and not name.startswith(_TRACES)]
    delay = OUTSIDE * period
    return "\n".join(
        [
            "# One clock; every register takes its rising edge.",
            f"create_clock -name {_CLOCK} -period {period:.3f} [get_ports {_CLOCK}]",
            "",
            "# Reset may come at any time: the first of two registers takes it to the clock.",
            f"set_false_path -from [get_ports {_RESET}]",
            "",
            "# For simulation; leave them open.",
            f"set_false_path -to [get_ports {_TRACES}*]",
            "",
            f"# {OUTSIDE:.0%} of the period pass outside: change them to what surrounds the chip.",
            *(f"set_input_delay -clock {_CLOCK} {delay:.3f} [get_ports {p}*]" for p in inputs),
            *(f"set_output_delay -clock {_CLOCK} {delay:.3f} [get_ports {p}*]" for p in outputs),
            "",
        ]
    )


def lpf(period: float) -> str:
    """Return constraints for Diamond and nextpnr for a clock period in ns.

    Pins are a board's; nextpnr takes the frequency alone.

    Raises
    ------
    ValueError
        If the period is not positive.
    """
    _check(period)
    inside = (1 - OUTSIDE) * period
    return "\n".join(
        [
            "# One clock. Reset and other asynchronous paths are not timed.",
            f'FREQUENCY PORT "{_CLOCK}" {1000 / period:.3f} MHZ;',
            "BLOCK ASYNCPATHS;",
            "BLOCK RESETPATHS;",
            "",
            f"# {OUTSIDE:.0%} of the period pass outside: change them to what surrounds the chip.",
            f'INPUT_SETUP ALLPORTS {inside:.3f} NS CLKPORT "{_CLOCK}";',
            f'CLOCK_TO_OUT ALLPORTS {inside:.3f} NS CLKPORT "{_CLOCK}";',
            "",
        ]
    )


def _check(period: float) -> None:
    if period <= 0:
        raise ValueError(f"Clock period must be positive, not {period!r} ns")
