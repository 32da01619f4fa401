"""A generic library of gates: delays in fanout-of-four inverters (FO4), areas in NAND2.

The model is linear, as in logical effort: from an input pin to the output a gate takes

    intrinsic(pin) + RESISTANCE / drive * load        FO4

where the load is the sum of the capacitances of the pins that the net drives, in units of the
smallest inverter's pin. Wires are free. An inverter that drives four like it takes one FO4.

Intrinsic delays, pin capacitances and areas are rounded from a linear fit of a public library with
real transistors behind it, OSU 0.18 um (Debian's package qflow-tech-osu018), at the slew of an FO4
(1.2 FO4 from 20 % to 80 %), the mean of rise and fall. In FO4 they change little from one process
to the next. As there, a flip-flop has neither reset nor enable: those become gates before it.
"""

from dataclasses import dataclass

from tpulite_silicon.timed import RISE, SRAM_ACCESS, Arc, Library, Table, TimedCell

__all__ = ["CELLS", "FLIPFLOP", "FO4", "RESISTANCE", "Cell", "liberty"]

RESISTANCE = 0.15
"""FO4 for each unit of load at a gate of drive 1."""


@dataclass(frozen=True)
class Cell:
    """A gate with one output."""

    name: str
    area: float  #: NAND2 equivalents.
    function: str  #: Of the output ``Y``, in Liberty's syntax.
    pins: dict[str, tuple[float, float]]  #: Capacitance and intrinsic delay of each input.
    drive: float = 1.0  #: How many times stronger the output is than the smallest inverter's.

    def delay(self, pin: str, load: float) -> float:
        """Return the FO4 from an input to the output at a load."""
        return self.pins[pin][1] + RESISTANCE / self.drive * load


def _alike(pins: str, capacitance: float, *intrinsic: float) -> dict[str, tuple[float, float]]:
    """Return pins of one capacitance, the slowest first: it drives the transistor at the rail."""
    return {pin: (capacitance, delay) for pin, delay in zip(pins, intrinsic, strict=True)}


FLIPFLOP = Cell("DFF", 4.0, "IQ", {"C": (3.0, 1.35), "D": (1.0, 2.0)}, drive=1.6)
"""``C`` has the delay from the clock to the output ``Q``; ``D`` the setup time."""

CELLS = {
    cell.name: cell
    for cell in (
        Cell("INV1", 2 / 3, "!A", _alike("A", 1.0, 0.40)),
        Cell("INV2", 2 / 3, "!A", _alike("A", 2.0, 0.35), drive=1.6),
        Cell("INV4", 1.0, "!A", _alike("A", 4.0, 0.30), drive=2.7),
        Cell("INV8", 5 / 3, "!A", _alike("A", 8.0, 0.30), drive=5.0),
        Cell("BUF2", 1.0, "A", _alike("A", 1.0, 0.90), drive=1.7),
        Cell("BUF4", 4 / 3, "A", _alike("A", 1.5, 1.00), drive=3.0),
        Cell("NAND2", 1.0, "!(A*B)", _alike("AB", 1.4, 0.50, 0.45)),
        Cell("NAND3", 1.5, "!(A*B*C)", _alike("ABC", 1.7, 0.65, 0.60, 0.50)),
        Cell("NOR2", 1.0, "!(A+B)", _alike("AB", 1.6, 0.55, 0.50)),
        Cell("NOR3", 2.0, "!(A+B+C)", _alike("ABC", 2.1, 0.80, 0.75, 0.55)),
        Cell("AND2", 4 / 3, "A*B", _alike("AB", 1.4, 0.95, 0.90), drive=1.7),
        Cell("OR2", 4 / 3, "A+B", _alike("AB", 1.6, 1.05, 1.00), drive=1.7),
        Cell("AOI21", 4 / 3, "!(A*B+C)", _alike("ABC", 1.8, 0.60, 0.60, 0.50)),
        Cell("OAI21", 4 / 3, "!((A+B)*C)", _alike("ABC", 1.8, 0.60, 0.60, 0.50)),
        Cell("AOI22", 5 / 3, "!(A*B+C*D)", _alike("ABCD", 1.9, 0.75, 0.70, 0.60, 0.55)),
        Cell("OAI22", 5 / 3, "!((A+B)*(C+D))", _alike("ABCD", 1.9, 0.75, 0.70, 0.60, 0.55)),
        Cell("MUXI2", 2.0, "!((A*!S)+(B*S))", {**_alike("AB", 1.9, 0.65, 0.65), "S": (2.2, 1.05)}),
        Cell("XOR2", 7 / 3, "A^B", _alike("AB", 3.4, 0.90, 0.95), drive=1.1),
        Cell("XNOR2", 7 / 3, "!(A^B)", _alike("AB", 3.4, 0.90, 0.95), drive=1.1),
    )
}
"""The gates by name; strengths beyond the smallest are for inverters and buffers."""


def liberty() -> str:
    """Return the library as a Liberty file.

    A nanosecond stands for an FO4, a femtofarad for the input of the smallest inverter. Tables
    have two points in each direction, between which interpolation is the linear model.
    """
    body = "".join(_combinational(cell) for cell in CELLS.values()) + _flipflop()
    return f"""library(fo4) {{
  delay_model : table_lookup;
  time_unit : "1ns";
  voltage_unit : "1V";
  current_unit : "1uA";
  leakage_power_unit : "1nW";
  pulling_resistance_unit : "1kohm";
  capacitive_load_unit (1, ff);
  nom_voltage : 1;
  nom_temperature : 25;
  nom_process : 1;
  lu_table_template(linear) {{
    variable_1 : total_output_net_capacitance;
    variable_2 : input_net_transition;
    index_1 ("0, {_FAR}");
    index_2 ("0, {_FAR}");
  }}
{body}}}
"""


_FAR = 100
"""Load and slew at the far end of the tables."""


def _combinational(cell: Cell) -> str:
    pins = "".join(
        f"    pin({pin}) {{ direction : input; capacitance : {capacitance}; }}\n"
        for pin, (capacitance, _) in cell.pins.items()
    )
    arcs = "".join(_arc(cell, pin) for pin in cell.pins)
    return (
        f"  cell({cell.name}) {{\n    area : {cell.area:.3f};\n{pins}"
        f'    pin(Y) {{\n      direction : output;\n      function : "{cell.function}";\n'
        f"      max_capacitance : {_FAR};\n{arcs}    }}\n  }}\n"
    )


def _arc(cell: Cell, pin: str, kind: str = "combinational") -> str:
    near, far = cell.delay(pin, 0), cell.delay(pin, _FAR)
    rows = f'values ("{near:.3f}, {near:.3f}", "{far:.3f}, {far:.3f}");'
    tables = "".join(
        f"        {table}(linear) {{ {rows} }}\n"
        for table in ("cell_rise", "cell_fall", "rise_transition", "fall_transition")
    )
    pins = f'        related_pin : "{pin}";\n        timing_type : {kind};\n'
    return f"      timing() {{\n{pins}{tables}      }}\n"


def _flipflop() -> str:
    (clock, _), (data, _) = FLIPFLOP.pins.values()
    return f"""  cell({FLIPFLOP.name}) {{
    area : {FLIPFLOP.area:.3f};
    ff(IQ, IQN) {{ clocked_on : "C"; next_state : "D"; }}
    pin(C) {{ direction : input; capacitance : {clock}; clock : true; }}
    pin(D) {{ direction : input; capacitance : {data}; }}
    pin(Q) {{
      direction : output;
      function : "IQ";
{_arc(FLIPFLOP, "C", "rising_edge")}    }}
  }}
"""


def _linear(intrinsic: float, drive: float) -> tuple[Arc, ...]:
    """Return the arc of a fit: a rising edge stands for both, and slews do not matter."""
    far = intrinsic + RESISTANCE / drive * _FAR
    return (Arc(RISE, RISE, Table((0.0,), (0.0, _FAR), ((intrinsic, far),)), _constant(0.0)),)


def _constant(value: float) -> Table:
    return Table((0.0,), (0.0,), ((value,),))


def _timed(cell: Cell) -> TimedCell:
    arcs = {pin: _linear(delay, cell.drive) for pin, (_, delay) in cell.pins.items()}
    loads = {pin: load for pin, (load, _) in cell.pins.items()}
    return TimedCell(cell.name, cell.area, loads, {"Y": arcs})


_GATES = {name: _timed(cell) for name, cell in CELLS.items()}
_BUFFER = CELLS["BUF4"]
(_CLOCK_LOAD, _LAUNCH), (_DATA_LOAD, _SETUP) = FLIPFLOP.pins.values()
_SETUPS = [(RISE, _constant(_SETUP))]
_PORT_LOAD = 2.0
"""Of an input of a memory macro and of a port."""

FO4 = Library(
    name="fo4",
    text=liberty(),
    gates=_GATES,
    registers={
        FLIPFLOP.name: TimedCell(
            FLIPFLOP.name,
            FLIPFLOP.area,
            {"C": _CLOCK_LOAD, "D": _DATA_LOAD},
            {"Q": {"C": _linear(_LAUNCH, FLIPFLOP.drive)}},
            {"D": _SETUPS},
            "C",
        )
    },
    macro=TimedCell(
        "memory macro",
        0.0,
        {"": _PORT_LOAD},
        {"": {"": _linear(SRAM_ACCESS, _BUFFER.drive)}},
        {"": _SETUPS},
    ),
    port=TimedCell("port", 0.0, {"": _PORT_LOAD}, {"": {"": _linear(0.0, _BUFFER.drive)}}),
    buffers={RISE: _GATES[_BUFFER.name].outputs["Y"]["A"][0]},
    buffer_load=_BUFFER.pins["A"][0],
)
"""The library, for analyses."""
