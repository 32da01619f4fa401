"""Mutants of the whole chip in the bench of a component.

A mutant of the chip that no system bench notices may be one that the bench of its component would.
A bench's component is often made of the very modules that the chip has: of the same cells in the
same order, from the same lines, as :func:`_likeness` says. Only what they are called differs.
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
_SOURCE = re.compile(r'attribute \\src "(\S+)"')
_PARAMETER = re.compile(r"^    parameter (?!\\MEMID).*$", re.MULTILINE)
_PORT = re.compile(r"^    connect \\?(\S+) (.*)", re.MULTILINE)
_WIRE = re.compile(r"[\\$][^\s\[\]{}]+")
_OWN_PORT = re.compile(r".*\$|(\w+_)?(clk|rst)$")
"""A port of an instance that is called after the module around it, or after its clock."""


def transplanted(
    component: wiring.Component, ports: list, chip: Path, numbers: Collection[int]
) -> Path | None:
    """Return a component with those mutants of the chip that are in modules it has, too.

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
        Which are wanted; those in modules that the component does not have are left out.
    """
    places = {number: _words(mutations[number - 1]) for number in sorted(numbers)}
    wanted = {words["module"] for words in places.values()}
    theirs = _modules(component)
    hosts: dict[str, tuple[str, dict[str, re.Match[str]]]] = {}
    for name, cells in _modules(chip).items():
        if name not in wanted:
            continue
        like = [n for n, others in theirs.items() if _likeness(others) == _likeness(cells)]
        if like:
            host = max(like, key=lambda other: _common_end(other, name))
            names = (_plain(cell["name"]) for cell in cells)
            hosts[name] = (host, dict(zip(names, theirs[host], strict=True)))
    found = []
    for number, words in places.items():
        host, cells = hosts.get(words["module"], ("", {}))
        cell = cells.get(words["cell"])
        if cell and _has_port(cell, words["port"]):
            command = mutations[number - 1].replace(
                f"-module {words['module']} -cell {words['cell']} ",
                f"-module {host} -cell {_plain(cell['name'])} ",
            )
            found.append(command)
    return found


def _words(mutation: str) -> dict[str, str]:
    return dict(re.findall(r"-(module|cell|port) (\S+)", mutation))


def _plain(name: str) -> str:
    """Return a name without the backslash that public names have in RTLIL."""
    return name.removeprefix("\\")


def _modules(text: str) -> dict[str, list[re.Match[str]]]:
    """Return the cells of all modules that have some."""
    found = {name: list(_CELL.finditer(body)) for name, body in _MODULE.findall(text)}
    return {name: cells for name, cells in found.items() if cells}


def _likeness(cells: list[re.Match[str]]) -> list[tuple]:
    """Return what is equal of equal modules: each cell, and what it is connected to, but names."""
    numbers: dict[str, str] = {}

    def unnamed(value: str) -> str:
        value = _WIRE.sub(lambda match: numbers.setdefault(match[0], f"w{len(numbers)}"), value)
        return " ".join(sorted(value.split())) if reduces else value

    found = []
    for cell in cells:
        reduces = cell["type"].startswith("$reduce_")  # in an order that follows from names
        instance = not cell["type"].startswith("$")
        ports = [p for p in _PORT.findall(cell["body"]) if not (instance and _OWN_PORT.match(p[0]))]
        found.append(
            (
                "" if instance else cell["type"],  # which has a path in it
                tuple(_PARAMETER.findall(cell["body"])),
                tuple((port, unnamed(value)) for port, value in sorted(ports)),
                tuple(_SOURCE.findall(cell["attributes"])),
            )
        )
    return found


def _has_port(cell: re.Match[str], port: str) -> bool:
    """Tell whether the bits of a cell's port are those of the cell that is like it."""
    value = dict(_PORT.findall(cell["body"])).get(port)
    return value is not None and not (cell["type"].startswith("$reduce_") and " " in value)


def _common_end(one: str, other: str) -> int:
    """Return how many names two paths of modules end with alike."""
    pairs = zip(reversed(one.split(".")), reversed(other.split(".")), strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
