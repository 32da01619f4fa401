"""Timing constraints of the chip: SDC for most tools, LPF for an ECP5."""

from amaranth.lib.wiring import In

from tpulite_rtl.top import BOARD_PORTS

__all__ = ["OUTSIDE", "lpf", "sdc", "sdc_of_ports"]

OUTSIDE = 0.4
"""Part of the clock period that an input has taken before it comes, and that an output still needs
behind the chip."""

_CLOCK, _RESET = "clk", "rst"


def sdc(period: float) -> str:
    """Return Synopsys Design Constraints for a clock period in ns: of the clock, for every tool.

    Raises
    ------
    ValueError
        If the period is not positive.
    """
    _check(period)
    return (
        "# One clock; every register takes its rising edge.\n"
        f"create_clock -name {_CLOCK} -period {period:.3f} [get_ports {_CLOCK}]\n"
    )


def sdc_of_ports(period: float) -> str:
    """Return constraints of all other ports, for tools that time what surrounds the chip.

    nextpnr does not know their commands.

    Raises
    ------
    ValueError
        If the period is not positive.
    """
    _check(period)
    delay = OUTSIDE * period
    return "\n".join(
        [
            "# Read it behind the constraints of the clock.",
            "# Reset may come at any time: the first of two registers takes it to the clock.",
            f"set_false_path -from [get_ports {_RESET}]",
            "",
            f"# {OUTSIDE:.0%} of the period pass outside: change them to what surrounds the chip.",
            *(
                f"set_{'input' if member.flow == In else 'output'}_delay "
                f"-clock {_CLOCK} {delay:.3f} [get_ports {name}*]"
                for name, member in BOARD_PORTS.items()
            ),
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
