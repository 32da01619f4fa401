"""The chip of a LiteX system for an operating system: a fragment of a device tree."""

import json
from collections.abc import Mapping
from pathlib import Path

__all__ = ["fragment", "write_fragment"]

_TEXT = """\
/* tpulite for /include/ behind what litex_json2dts_linux writes of csr.json. The interrupt passes
 * LiteX's event manager, the second range: status, pending, enable. */
/ {{
\tsoc {{
\t\ttpulite@{base:x} {{
\t\t\tcompatible = "tpulite,tpulite";
\t\t\treg = <{base:#x} {size:#x}>, <{events:#x} 0xc>;
\t\t\treg-names = "registers", "events";
{interrupt}\t\t}};
\t}};
}};
"""

_INTERRUPT = "\t\t\tinterrupt-parent = <&intc0>;\n\t\t\tinterrupts = <{number}>;\n"


def fragment(described: Mapping) -> str:
    """Return the node of the chip.

    Parameters
    ----------
    described : mapping
        What LiteX writes of a system as ``csr.json``.

    Raises
    ------
    ValueError
        If it has no chip.
    """
    memory = described["memories"].get("tpulite")
    if memory is None:
        raise ValueError("the system has no tpulite: see tpulite_litex.core.add_tpulite")
    number = described["constants"].get("tpulite_interrupt")
    return _TEXT.format(
        base=memory["base"],
        size=memory["size"],
        events=described["csr_bases"]["tpulite"],
        interrupt="" if number is None else _INTERRUPT.format(number=number),
    )


def write_fragment(folder: Path) -> None:
    """Write ``tpulite.dtsi`` beside the ``csr.json`` of a system."""
    described = json.loads((folder / "csr.json").read_text())
    (folder / "tpulite.dtsi").write_text(fragment(described))
