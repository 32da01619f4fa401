"""Write a waveform that a simulator tells as VCD as FST: smaller, in a window, states by name."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from pylibfst import ffi, lib

__all__ = ["Keep", "Variable", "write_fst"]

_TIMESCALES = {b"1ps": -12, b"1ns": -9}
_SCALARS = b"01xzXZ"

_PORTS = "$rootio"
"""Scope in which Verilator lists the ports of the outermost module before its signals."""


@dataclass
class Variable:
    """A signal of a waveform."""

    path: tuple[str, ...]  #: Its scopes, from the outermost module on, and its name.
    width: int  #: Bits.
    port: bool  #: Whether it is one of the outermost module.
    states: tuple[str, ...] = ()  #: Names of its values; empty if they are numbers.

    @property
    def name(self) -> str:
        """Path as viewers write it: ``tpulite.trace_mxu_index[15:0]``."""
        return ".".join(self.path) + (f"[{self.width - 1}:0]" if self.width > 1 else "")


@dataclass(frozen=True)
class Keep:
    """What of a waveform is written."""

    cycles: range  #: Which ones, counted from 0 by the rising edges of the outermost ``clk``.
    ports: bool  #: Only the ports of the outermost module, not all signals.
    #: Names of the values 0, 1, … of ports whose whole name fits.
    states: Mapping[re.Pattern[str], tuple[str, ...]]

    def names(self, name: str) -> tuple[str, ...]:
        """Return the names of the values of a port."""
        return next((x for pattern, x in self.states.items() if pattern.fullmatch(name)), ())


@dataclass
class _Dump:
    """An FST file that is being written."""

    context: object
    handles: dict[bytes, int] = field(default_factory=dict)
    widths: dict[bytes, int] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    clock: bytes = b""


def write_fst(
    stream: BinaryIO,
    path: Path,
    keep: Keep,
) -> tuple[Variable, ...]:
    """Turn a VCD into an FST, and return its signals.

    Parameters
    ----------
    stream : file
        The VCD, to its end.
    path : Path
        File to write.
    keep : Keep
        What of it.
    """
    context = lib.fstWriterCreate(str(path).encode(), 1)
    lib.fstWriterSetPackType(context, lib.FST_WR_PT_LZ4)
    try:
        dump = _Dump(context)
        _declare(stream, dump, keep)
        _values(stream, dump, keep.cycles)
    finally:
        lib.fstWriterClose(context)
    return tuple(dump.variables)


def _declare(stream: BinaryIO, dump: _Dump, keep: Keep) -> None:
    """Read declarations up to their end, and write them."""
    scopes: list[str] = []
    ports: set[str] = set()
    for line in stream:
        words = line.split()
        match words[:1]:
            case [b"$timescale"]:
                unit = b"".join(words[1:-1] or next(stream).split())
                lib.fstWriterSetTimescale(dump.context, _TIMESCALES[unit])
            case [b"$scope"]:
                scopes.append(words[2].decode())
                if scopes[0] != _PORTS:
                    lib.fstWriterSetScope(dump.context, lib.FST_ST_VCD_MODULE, words[2], ffi.NULL)
            case [b"$upscope"]:
                if scopes.pop() != _PORTS:
                    lib.fstWriterSetUpscope(dump.context)
            case [b"$var"]:
                name = words[4].decode().partition("[")[0]
                if scopes == [_PORTS]:
                    ports.add(name)
                elif words[1] != b"real":
                    port = len(scopes) == 1 and name in ports
                    states = keep.names(name) if port else ()
                    if port or not keep.ports:
                        path = (*scopes, name)
                        _declare_one(dump, words[3], Variable(path, int(words[2]), port, states))
            case [b"$enddefinitions"]:
                return


def _declare_one(dump: _Dump, code: bytes, variable: Variable) -> None:
    width, name = variable.width, variable.path[-1]
    if variable.states:
        _name_values(dump.context, width, variable.states)
    declared = f"{name} [{width - 1}:0]" if width > 1 else name
    kind, direction = lib.FST_VT_VCD_WIRE, lib.FST_VD_IMPLICIT
    alias = dump.handles.get(code, 0)
    handle = lib.fstWriterCreateVar(dump.context, kind, direction, width, declared.encode(), alias)
    dump.handles.setdefault(code, handle)
    dump.widths[code] = width
    dump.variables.append(variable)
    if variable.port and name == "clk":
        dump.clock = code


def _name_values(context: object, width: int, names: tuple[str, ...]) -> None:
    """Give names to the values of the variable that is declared next."""
    literals = [ffi.new("char[]", name.encode()) for name in names]
    values = [ffi.new("char[]", f"{i:0{width}b}".encode()) for i in range(len(names))]
    table = lib.fstWriterCreateEnumTable(
        context,
        b"state",
        len(names),
        width,
        ffi.new("char *[]", literals),
        ffi.new("char *[]", values),
    )
    lib.fstWriterEmitEnumTableRef(context, table)


def _values(stream: BinaryIO, dump: _Dump, cycles: range) -> None:
    """Read values to the end; write those of the cycles, and at first what all signals are."""
    handles, widths, clock = dump.handles, dump.widths, dump.clock
    emit, context = lib.fstWriterEmitValueChange, dump.context
    before: dict[bytes, bytes] = {}
    changes: dict[bytes, bytes] = {}
    cycle, time, writing = -1, 0, False

    def step() -> bool:
        """Write the changes of a point in time, if it is one of the window; tell if more may be."""
        nonlocal cycle, writing
        if changes.get(clock) == b"1" and before.get(clock) != b"1":
            cycle += 1
        before.update(changes)
        if cycle >= cycles.stop:
            return False
        if cycle >= cycles.start or not cycles.start:
            lib.fstWriterEmitTimeChange(context, time)
            for code, value in (changes if writing else before).items():
                emit(context, handles[code], value)
            writing = True
        changes.clear()
        return True

    for line in stream:
        if line[0] in b"#":
            if changes and not step():
                break
            time = int(line[1:])
        elif line[0] in b"b":
            value, code = line[1:].split()
            if code in widths:
                fill = b"0" if value[0] in b"01" else value[:1]  # zeros in front may be left out
                changes[code] = value.rjust(widths[code], fill)
        elif line[0] in _SCALARS and (code := line[1:].rstrip()) in handles:
            changes[code] = line[:1]
    else:
        step()
    for _ in stream:  # the simulator must not be broken off
        pass
