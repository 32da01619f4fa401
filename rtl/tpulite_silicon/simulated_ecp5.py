"""The cells of an ECP5 that synthesis uses, to simulate."""

from collections.abc import Mapping
from pathlib import Path

from tpulite_silicon.netlist import Bit
from tpulite_silicon.simulation import BlockWriter, Technology
from tpulite_silicon.synthesis import ecp5_cells_of

__all__ = ["SIMULATED_ECP5", "lut_expression"]

_BLOCK_RAM = {"DATA_WIDTH_A": 36, "DATA_WIDTH_B": 36}
_BLOCK_RAM_MODES = {
    "CLKAMUX": "CLKA",
    "CLKBMUX": "CLKB",
    "REGMODE_A": "NOREG",
    "REGMODE_B": "NOREG",
}
"""The one mode of block RAM that there is a model of: port A writes, port B reads."""


def lut_expression(table: int, inputs: tuple[str, ...]) -> str:
    """Return Verilog of a lookup table; it does not look at inputs that do not matter.

    Parameters
    ----------
    table : int
        The output for each value of the inputs, the first of which is the lowest bit.
    inputs : tuple of str
        Expressions of one bit.

    Examples
    --------
    >>> lut_expression(0b1000, ("a", "b"))
    '(b & a)'
    >>> lut_expression(0b1100_1010, ("a", "b", "s"))
    '(s ? b : a)'
    """
    if not inputs:
        return f"1'b{table}"
    *others, last = inputs
    size = 1 << len(others)
    full = (1 << size) - 1
    low, high = table & full, table >> size
    if low == high:
        return lut_expression(low, tuple(others))
    zero, one = (lut_expression(half, tuple(others)) for half in (low, high))
    if low == full ^ high:
        return {0: last, full: f"~{last}"}.get(low, f"({last} ^ {zero})")
    if low in (0, full):
        return f"({last} & {one})" if low == 0 else f"(~{last} | {one})"
    if high in (0, full):
        return f"(~{last} & {zero})" if high == 0 else f"({last} | {zero})"
    return f"({last} ? {one} : {zero})"


def _write(writer: BlockWriter, name: str, cell: dict) -> bool:
    kind, pins, parameters = cell["type"], cell["connections"], cell["parameters"]
    if kind == "LUT4":
        inputs = tuple(writer.net(pins[pin][0]) for pin in "ABCD")
        writer.assign(pins["Z"][0], lut_expression(int(parameters["INIT"], 2), inputs))
    elif kind == "CCU2C":
        return _write_carry(writer, pins, parameters)
    elif kind == "TRELLIS_FF":
        return _write_register(writer, pins, parameters)
    elif kind == "TRELLIS_DPR16X4":
        ports = {pin: pins[pin] for pin in ("DI", "WAD", "WRE", "WCK", "RAD")}
        writer.instance("ecp5_ram16x4", name, ports, {"DO": pins["DO"]})
    elif kind == "DP16KD":
        return _write_block_ram(writer, name, pins, parameters)
    elif kind == "MULT18X18D" and not parameters:
        ports = {port: _bits(pins, port, 18) for port in "AB"}
        signs = {sign: pins[sign] for sign in ("SIGNEDA", "SIGNEDB")}
        writer.instance("ecp5_multiplier", name, ports | signs, {"P": _bits(pins, "P", 36)})
    else:
        return False
    return True


def _write_carry(
    writer: BlockWriter, pins: Mapping[str, list[Bit]], parameters: Mapping[str, str]
) -> bool:
    """Write two bits of a carry chain: each a lookup table, whose carry is that of two inputs."""
    if {parameters["INJECT1_0"], parameters["INJECT1_1"]} != {"NO"}:
        return False
    carry = writer.net(pins["CIN"][0])
    for half in "01":
        inputs = tuple(writer.net(pins[f"{pin}{half}"][0]) for pin in "ABCD")
        table = int(parameters[f"INIT{half}"], 2)
        propagates = lut_expression(table, inputs)
        generates = lut_expression(table & 0xF, inputs[:2])
        if bits := pins.get(f"S{half}"):
            writer.assign(bits[0], f"{propagates} ^ {carry}")
        carry = f"({propagates} ? {carry} : {generates})"
    if bits := pins.get("COUT"):
        writer.assign(bits[0], carry)
    return True


def _write_register(
    writer: BlockWriter, pins: Mapping[str, list[Bit]], parameters: Mapping[str, str]
) -> bool:
    modes = {"CLKMUX": "CLK", "LSRMUX": "LSR", "SRMODE": "LSR_OVER_CE"}
    if any(parameters.get(name, mode) != mode for name, mode in modes.items()):
        return False
    state = writer.net(pins["Q"][0])
    value = writer.net(pins["DI"][0])
    if (enable := parameters["CEMUX"]) in ("CE", "INV"):
        value = f"({'~' * (enable == 'INV')}{writer.net(pins['CE'][0])} ? {value} : {state})"
    if (reset := pins["LSR"][0]) != "0":
        value = f"{writer.net(reset)} ? 1'b{int(parameters['REGSET'] == 'SET')} : {value}"
    writer.register(pins["CLK"][0], pins["Q"][0], value)
    return True


def _write_block_ram(
    writer: BlockWriter,
    name: str,
    pins: Mapping[str, list[Bit]],
    parameters: Mapping[str, str],
) -> bool:
    sizes = {key: int(parameters[key], 2) for key in _BLOCK_RAM}
    modes = {key: parameters[key] for key in _BLOCK_RAM_MODES}
    constant = {"CEA": "1", "WEA": "1", "WEB": "0", "OCEB": "1", "RSTA": "0", "RSTB": "0"}
    if sizes != _BLOCK_RAM or modes != _BLOCK_RAM_MODES:
        return False
    if any(pins[pin] != [value] for pin, value in constant.items()):
        return False
    inputs = {
        "write_clock": pins["CLKA"],
        "write_bytes": _bits(pins, "ADA", 4),
        "write_row": _bits(pins, "ADA", 14)[5:],
        "write_data": _bits(pins, "DIA", 18) + _bits(pins, "DIB", 18),
        "read_clock": pins["CLKB"],
        "read_enable": pins["CEB"],
        "read_row": _bits(pins, "ADB", 14)[5:],
    }
    outputs = {"read_data": _bits(pins, "DOA", 18) + _bits(pins, "DOB", 18)}
    writer.instance("ecp5_block_ram", name, inputs, outputs)
    return True


def _bits(pins: Mapping[str, list[Bit]], port: str, count: int) -> list[Bit]:
    return [pins[f"{port}{place}"][0] for place in range(count)]


SIMULATED_ECP5 = Technology(
    ecp5_cells_of, _write, Path(__file__).with_name("ecp5_cells.v").read_text()
)
"""Lookup tables, carries, flip-flops, multipliers and memories."""
