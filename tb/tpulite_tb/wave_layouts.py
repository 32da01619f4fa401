"""Layouts of waveforms for viewers: which signals are shown, in which order, in which form."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tpulite_tb.fst import Variable

__all__ = ["write_layouts"]

_GROUPS = {
    "clock": r"clk|rst|irq",
    "engines": r"trace_\w+",
    "DRAM reads": r"m_axi_(ar|r)\w+",
    "DRAM writes": r"m_axi_(aw|w|b)\w+",
    "registers": r"s_axil_\w+",
    "other": r".*",
}
"""Headings, and the names of the ports below them, the first that fits."""

_BITS, _HEX, _DECIMAL, _STATE, _HEADING = "@28", "@22", "@24", "@100000022", "@200"
"""How GTKWave shows what follows: its flags in hexadecimal."""


def write_layouts(file: Path, variables: Sequence[Variable]) -> None:
    """Write beside a waveform ``.gtkw`` for GTKWave and ``.sucl`` for Surfer.

    Parameters
    ----------
    file : Path
        The waveform.
    variables : sequence of Variable
        Its signals, of which the ports are shown.
    """
    groups = dict(_grouped(variables))
    gtkwave = [f'[dumpfile] "{file.resolve()}"', "[timestart] 0"]
    surfer = []
    for heading, ports in groups.items():
        gtkwave += [_HEADING, f"-{heading}"]
        surfer.append(f"divider_add {heading}")
        for port in ports:
            gtkwave += [_form(port), port.name]
            surfer.append(f"variable_add {'.'.join(port.path)}")
    file.with_suffix(".gtkw").write_text("\n".join(gtkwave) + "\n")
    file.with_suffix(".sucl").write_text("\n".join([*surfer, "zoom_fit"]) + "\n")


def _grouped(variables: Sequence[Variable]) -> Iterator[tuple[str, list[Variable]]]:
    left = [each for each in variables if each.port]
    for heading, pattern in _GROUPS.items():
        ports = [port for port in left if re.fullmatch(pattern, port.path[-1])]
        left = [port for port in left if port not in ports]
        if ports:
            yield heading, ports


def _form(port: Variable) -> str:
    if port.states:
        return _STATE
    if port.path[-1].endswith("_index"):
        return _DECIMAL
    return _BITS if port.width == 1 else _HEX
