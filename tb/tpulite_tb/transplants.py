"""Mutants of a chip, or of a large component, in the bench of a component inside.

A mutant of the chip that no system bench notices may be one that the bench of its component would.
What a bench simulates has the same cells as the chip, for they come from the same lines; they are
called otherwise, and some have other widths. A mutant is tried in a cell that comes from the same
line and is as wide.
"""

import re
from collections.abc import Collection
from itertools import takewhile
from pathlib import Path

from amaranth.lib import wiring

from tpulite_tb.mutants import component_cells, with_mutations

__all__ = ["transplanted", "transplants"]

_MODULE = re.compile(r"^module \\(\S+)\n(.*?)^end$", re.MULTILINE | re.DOTALL)
_CELL = re.compile(
    r"(?P<attributes>(?:^  attribute .*\n)*)^  cell (?P<type>\S+) (?P<name>\S+)\n"
    r"(?P<body>(?:^    .*\n)*)",
    re.MULTILINE,
)
_SOURCE = re.compile(r'attribute \\src "(?!_)(\S+)"')
"""A line of the sources; one of Amaranth's own, as of any comparison, says nothing of a cell."""
_PARAMETER = re.compile(r"^    parameter (?!\\MEMID).*$", re.MULTILINE)
_PORT = re.compile(r"^    connect \\?(\S+)", re.MULTILINE)
_OWN_PORT = re.compile(r".*\$|(\w+_)?(clk|rst)$")
"""A port of an instance that is called after the module around it, or after its clock."""


def transplanted(
    component: wiring.Component, ports: list, chip: Path, numbers: Collection[int]
) -> Path | None:
    """Return a component with those mutants of the chip that are in cells it has, too.

    Parameters
    ----------
    component : wiring.Component
        That of a bench.
    ports : list
        Its ports, as Amaranth's back ends take them.
    chip : Path
        What :func:`tpulite_tb.mutants.with_mutants` has made of the chip.
    numbers : collection of int
        The chip's mutants that are wanted.

    Returns
    -------
    Path, optional
        As of :func:`tpulite_tb.mutants.with_mutants`; mutants have the numbers that they have in
        the chip. None if the component has none of them.
    """
    cells = component_cells(component, ports)
    found = transplants(
        (chip / "cells.il").read_text(),
        (chip / "mutants.ys").read_text().splitlines(),
        (cells / "cells.il").read_text(),
        numbers,
    )
    return with_mutations(cells, found) if found else None


def transplants(
    chip: str, mutations: list[str], component: str, numbers: Collection[int]
) -> list[str]:
    """Return the commands that change a component as others change the chip.

    Parameters
    ----------
    chip, component : str
        Both in RTLIL, of one version of the sources.
    mutations : list of str
        Yosys' ``mutate`` for each mutant of the chip, the first is number 1.
    numbers : collection of int
        Which are wanted; those in cells that the component does not have are left out.
    """
    places = {number: _words(mutations[number - 1]) for number in sorted(numbers)}
    wanted = {words["module"] for words in places.values()}
    theirs = _modules(component)
    hosts: dict[str, tuple[str, dict[str, str]]] = {}
    for name, cells in _modules(chip).items():
        if name in wanted:
            pairs = {other: _pairs(cells, others) for other, others in theirs.items()}
            host = max(pairs, key=lambda other: (len(pairs[other]), _common_end(other, name)))
            hosts[name] = (host, pairs[host])
    found = []
    for number, words in places.items():
        host, cells = hosts[words["module"]]
        if words["cell"] in cells and not _OWN_PORT.match(words["port"]):
            command = mutations[number - 1].replace(
                f"-module {words['module']} -cell {words['cell']} ",
                f"-module {host} -cell {cells[words['cell']]} ",
            )
            found.append(command)
    return found


def _words(mutation: str) -> dict[str, str]:
    return dict(re.findall(r"-(module|cell|port) (\S+)", mutation))


def _modules(text: str) -> dict[str, dict[str, tuple]]:
    """Return of each module what its cells are, by their names."""
    return {
        name: {cell["name"].removeprefix("\\"): _kind(cell) for cell in _CELL.finditer(body)}
        for name, body in _MODULE.findall(text)
    }


def _kind(cell: re.Match[str]) -> tuple:
    """Return what is equal of equal cells: the lines that they are from, type and widths."""
    lines = tuple(_SOURCE.findall(cell["attributes"]))
    if cell["type"].startswith("$"):
        return lines, cell["type"], tuple(_PARAMETER.findall(cell["body"]))
    ports = (name for name in _PORT.findall(cell["body"]) if not _OWN_PORT.match(name))
    return lines, frozenset(ports)


def _pairs(cells: dict[str, tuple], others: dict[str, tuple]) -> dict[str, str]:
    """Return by name which cell is equal; of several of a kind it is that at the same place.

    Those that come from no line have an equal only in modules that are equal as a whole.
    """
    if list(cells.values()) == list(others.values()):
        return dict(zip(cells, others, strict=True))
    here, there = _by_kind(cells), _by_kind(others)
    return {
        name: other
        for kind in here.keys() & there.keys()
        if kind[0] and len(here[kind]) == len(there[kind])
        for name, other in zip(here[kind], there[kind], strict=True)
    }


def _by_kind(cells: dict[str, tuple]) -> dict[tuple, list[str]]:
    """Return the names of the cells of each kind, in order."""
    found: dict[tuple, list[str]] = {}
    for name, kind in cells.items():
        found.setdefault(kind, []).append(name)
    return found


def _common_end(one: str, other: str) -> int:
    """Return how many names two paths of modules end with alike."""
    pairs = zip(reversed(one.split(".")), reversed(other.split(".")), strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
