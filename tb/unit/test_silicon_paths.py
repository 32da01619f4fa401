"""Longest paths of netlists that are small enough to add up by hand."""

import pytest

from tpulite_silicon.library import CELLS, FO4
from tpulite_silicon.netlist import flatten
from tpulite_silicon.paths import Analysis
from tpulite_silicon.report import report
from tpulite_silicon.timed import SRAM_ACCESS

CLOCK_TO_OUTPUT, SETUP = 1.35, 2.0
PER_LOAD = 0.15


def gate(cell: str, **connections: int | str) -> dict:
    return {"type": cell, "connections": {pin: [bit] for pin, bit in connections.items()}}


def block(cells: dict, names: dict, **ports: tuple[str, list]) -> dict:
    """A module as Yosys writes it."""
    return {
        "ports": {
            name: {"direction": direction, "bits": bits}
            for name, (direction, bits) in ports.items()
        },
        "cells": cells,
        "netnames": {name: {"hide_name": 0, "bits": bits} for name, bits in names.items()},
    }


def paths(top: dict, **blocks: dict) -> dict:
    """Return the longest path to each register by its name."""
    everything = {"top": top, **blocks}
    netlist = flatten("top", everything.__getitem__)
    found = Analysis(netlist).longest(netlist.storage, netlist.storage)
    return {path.end.name: path for path in found}


def test_an_inverter_that_drives_four_takes_one_fo4():
    inverter = CELLS["INV1"]
    assert inverter.delay("A", 4 * inverter.pins["A"][0]) == pytest.approx(1)


def test_a_path_is_the_sum_of_its_gates():
    cells = {
        "a": gate("DFF", C=1, D="0", Q=2),
        "first": gate("INV1", A=2, Y=3),
        "second": gate("NAND2", A=3, B=2, Y=4),
        "b": gate("DFF", C=1, D=4, Q=5),
    }
    found = paths(block(cells, {"a": [2], "b": [5]}))["b"]
    a = CLOCK_TO_OUTPUT + PER_LOAD / 1.6 * (1.0 + 1.4)  # to the inverter and the NAND
    inverter = 0.40 + PER_LOAD * 1.4
    nand = 0.50 + PER_LOAD * 1.0
    assert found.delay == pytest.approx(a + inverter + nand + SETUP)
    assert (found.levels, found.start.name, found.end.name) == (2, "a", "b")


def test_of_two_ways_the_longer_counts():
    cells = {
        "a": gate("DFF", C=1, D="0", Q=2),
        "c": gate("DFF", C=1, D="0", Q=6),
        "slow": gate("XOR2", A=6, B="1", Y=3),
        "meet": gate("NAND2", A=2, B=3, Y=4),
        "b": gate("DFF", C=1, D=4, Q=5),
    }
    found = paths(block(cells, {"a": [2], "b": [5], "c": [6]}))["b"]
    assert (found.start.name, [g.cell.name for g in found.through]) == ("c", ["XOR2", "NAND2"])


def test_paths_cross_the_borders_of_blocks():
    inverting = block({"inside": gate("INV1", A=7, Y=8)}, {}, i=("input", [7]), o=("output", [8]))
    cells = {
        "a": gate("DFF", C=1, D="0", Q=2),
        "one": {"type": "inverting", "connections": {"i": [2], "o": [3]}},
        "two": {"type": "inverting", "connections": {"i": [3], "o": [4]}},
        "b": gate("DFF", C=1, D=4, Q=5),
    }
    top = block(cells, {"a": [2], "b": [5]})
    found = paths(top, inverting=inverting)["b"]
    assert [g.block for g in found.through] == ["one", "two"]
    assert found.delay == pytest.approx(
        CLOCK_TO_OUTPUT + PER_LOAD / 1.6 + 2 * (0.40 + PER_LOAD) + SETUP
    )


def test_a_block_may_pass_an_input_on():
    wire = block({}, {}, i=("input", [7]), o=("output", [7]))
    cells = {
        "a": gate("DFF", C=1, D="0", Q=2),
        "through": {"type": "wire", "connections": {"i": [2], "o": [3]}},
        "b": gate("DFF", C=1, D=3, Q=5),
    }
    found = paths(block(cells, {"a": [2], "b": [5]}), wire=wire)["b"]
    assert (found.levels, found.start.name) == (0, "a")


def test_memory_macros_begin_and_end_paths():
    memory = {
        "type": "$mem_v2",
        "parameters": {"MEMID": "\\rows$3"},
        "connections": {
            "RD_ADDR": [2], "RD_EN": ["1"], "RD_DATA": [3], "RD_CLK": [1],
            "WR_ADDR": [4], "WR_EN": ["1"], "WR_DATA": [4], "WR_CLK": [1],
        },
    }  # fmt: skip
    cells = {
        "a": gate("DFF", C=1, D="0", Q=2),
        "memory": memory,
        "invert": gate("INV1", A=3, Y=4),
    }
    found = paths(block(cells, {"a": [2]}))["rows"]
    assert (found.start.name, found.levels) == ("rows", 1)
    assert found.delay > SRAM_ACCESS + 0.40 + SETUP


def test_inputs_and_constants_begin_no_path():
    cells = {"gate": gate("NAND2", A=7, B="1", Y=4), "b": gate("DFF", C=1, D=4, Q=5)}
    assert paths(block(cells, {"b": [5]}, i=("input", [7]))) == {}


def test_paths_from_and_to_ports_are_apart():
    cells = {
        "gate": gate("NAND2", A=7, B=5, Y=4),
        "b": gate("DFF", C=1, D=4, Q=5),
        "out": gate("INV1", A=5, Y=6),
        "across": gate("INV1", A=7, Y=8),
    }
    top = block(cells, {"b": [5]}, i=("input", [7]), o=("output", [6]), across=("output", [8]))
    ports = report(flatten("top", {"top": top}.__getitem__))["ports"]
    ends = {name: (path["start"], path["end"], path["levels"]) for name, path in ports.items()}
    assert ends == {
        "inputs": ("i", "b", 1),
        "outputs": ("b", "o", 1),
        "through": ("i", "across", 1),
    }


def test_a_loop_of_gates_is_refused():
    cells = {"one": gate("INV1", A=2, Y=3), "two": gate("INV1", A=3, Y=2)}
    with pytest.raises(ValueError, match="2 gates are on or behind a loop"):
        paths(block(cells, {}))


def test_a_large_load_costs_a_tree_of_buffers():
    (arc,) = FO4.gates["INV1"].outputs["Y"]["A"]
    delays = [FO4.through(arc, 0.0, load)[0] for load in (1, 4, 16, 64, 256, 1024, 4096)]
    assert delays == sorted(delays)
    assert delays[-1] < 10


def test_the_report_has_gates_by_block_and_joins_what_is_numbered():
    lane = block({"r": gate("DFF", C=1, D=7, Q=8)}, {"r": [8]}, i=("input", [7]), o=("output", [8]))
    cells = {
        "lane_0": {"type": "lane", "connections": {"i": [3], "o": [2]}},
        "lane_1": {"type": "lane", "connections": {"i": [2], "o": [3]}},
        "gate": gate("NAND2", A=2, B=3, Y=4),
    }
    everything = {"top": block(cells, {}), "lane": lane}
    found = report(flatten("top", everything.__getitem__))
    assert found["chip"]["gates"] == 9
    rows = {row["name"]: (row["count"], row["gates"]) for row in found["blocks"]}
    assert rows == {"lane_*": (2, 8), "chip": (1, 1)}
    assert {found["chip"]["start"], found["chip"]["end"]} == {"lane_0.r", "lane_1.r"}
