"""Place and route the chip on a Lattice ECP5 or Gowin GW5AST-138C and say how fast it is.

Writes build/pnr/CONFIG.json. --block takes one block and what is in it, which is done in a minute;
a whole 4x4 takes ten minutes of one core for each seed, if the part is half empty. On a full part
not all seeds are routed; what never will be is given up. Configurations that are made for a part
are placed as that needs, unless options say otherwise. On a GW5AST-138C all is always one block.
"""

import argparse
import sys
from dataclasses import asdict, replace

from rich.console import Console
from rich.table import Table

from tpulite.configs import CONFIG_PARTS, CONFIGS, named_chip, part_for
from tpulite_silicon import gw5a
from tpulite_silicon.design import Design, chip_design, plain_name
from tpulite_silicon.place import PACKAGES, PLACERS, TIMING_WEIGHT, Options, Placement, place
from tpulite_silicon.report import identity, write_report
from tpulite_silicon.router import UnroutedError, shown

_DEFAULTS: dict[str, dict] = {
    "ecp5-25": {"mhz": 64},
    "ecp5-45": {"mhz": 58, "placer": "static", "blockages": 4},
    "ecp5-85": {"mhz": 52, "placer": "static", "blockages": 3},
}
"""What each configuration is routed with: the highest frequency that its first seeds could have."""

_GW5A_DENSITY = 0.25
"""nextpnr's placer spreads lookup tables, carries and flip-flops each on their own, each to its
density, though they compete for slots: with 0.4 `8x8` is so dense in the middle that legalization
looks for slots for minutes in each iteration, with this for seconds."""

_ENDS = 20
"""Blocks that are printed; the file has all."""


def part_of(design: Design, block: str) -> Design:
    """Return the design whose top is an instance of a block.

    ValueError if there is none of this name.
    """
    for instance, module in design.instances():
        if plain_name(instance) == block:
            return replace(design, top=module.name)
    raise ValueError(f"No block is called {block!r}; `make timing` lists them")


def made_for_a_part(config: str) -> str:
    """Return which configuration for a part this is, under whatever name; empty if none.

    SystemExit if there is no such configuration, with which there are.
    """
    try:
        wanted = named_chip(config)
    except ValueError as error:
        sys.exit(str(error))
    return next((name for name in CONFIG_PARTS if named_chip(name) == wanted), "")


def placements_table(
    name: str, found: list[Placement], unrouted: dict[int, UnroutedError]
) -> Table:
    """Return what became of each seed."""
    table = Table(title=f"{name}, registers around its ports", width=80)
    for column in ("seed", "Fmax, MHz", "logic, ns", "routing, ns"):
        table.add_column(column, justify="right")
    table.add_column("critical path", overflow="fold")
    for placement in found:
        table.add_row(
            str(placement.seed),
            f"{placement.fmax_mhz:.1f}",
            f"{placement.logic_ns:.2f}",
            f"{placement.routing_ns:.2f}",
            f"{placement.nets[0]} to {placement.nets[-1]}" if placement.nets else "",
        )
    for seed, why in unrouted.items():
        table.add_row(str(seed), "", "", "", str(why))
    return table


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", help=f"one of {', '.join(CONFIGS)}, perhaps with other sizes")
    parser.add_argument("--block", default="", help="only this block, like mxu.vectors.walker")
    parser.add_argument(
        "--part",
        choices=(*PACKAGES, gw5a.PART),
        help="LFE5U, by default the configuration's, or a GW5AST-138C",
    )
    parser.add_argument("--seeds", type=int, default=1, help="how many placements to try")
    parser.add_argument("--first", type=int, default=1, help="seed of these")
    parser.add_argument(
        "--mhz", type=int, default=0, help="rip slower paths up until there are none"
    )
    parser.add_argument(
        "--weight", type=int, default=TIMING_WEIGHT, help="of paths beside wires, for the placer"
    )
    parser.add_argument("--alternate", action="store_true", help="router2's alternate weights")
    parser.add_argument("--placer", choices=PLACERS, default=PLACERS[0], help="of nextpnr")
    parser.add_argument(
        "--blockages", type=int, default=0, help="leave one of so many rows of tiles without logic"
    )
    parser.add_argument(
        "--density", type=float, default=0, help="of tiles as the heap placer spreads cells"
    )
    parser.add_argument(
        "--flat", action=argparse.BooleanOptionalAction, help="optimize across the blocks' borders"
    )
    options = parser.parse_args()
    if not options.block and (name := made_for_a_part(options.config)):
        parser.set_defaults(flat=True, **_DEFAULTS[name])
        options = parser.parse_args()
    if options.part == gw5a.PART:
        options.density = options.density or _GW5A_DENSITY
    if options.placer == "static" and options.weight != TIMING_WEIGHT:
        parser.error("--weight: the static placer has none")
    if options.blockages and options.part == gw5a.PART:
        parser.error("--blockages: only on an ECP5")
    if options.placer != PLACERS[0] and options.part == gw5a.PART:
        parser.error(f"--placer: only {PLACERS[0]} knows a Gowin")
    if not 0 <= options.density <= 1:
        parser.error(f"--density: {options.density}; at most 1, or 0 for nextpnr's")
    if options.mhz < 0:
        parser.error(f"--mhz: {options.mhz}; a frequency, or 0 for none")
    if options.blockages < 0 or options.blockages == 1:
        parser.error(
            f"--blockages: one of {options.blockages} rows; at least one of 2, or 0 for none"
        )
    return options


def main() -> None:
    """Place and route a named configuration, print and write."""
    options = parsed()
    try:
        config, build = named_chip(options.config)
        target = "gw5a" if options.part == gw5a.PART else "ecp5"
        design = part_of(chip_design(config, replace(build, target=target)), options.block)
        design = design.flat() if options.flat else design
    except ValueError as error:
        sys.exit(str(error))

    part = f"LFE5U-{options.part}" if options.part else part_for(options.config)
    part = gw5a.PART if target == "gw5a" else part
    console = Console(width=80)
    how = Options(
        mhz=options.mhz,
        weight=options.weight,
        alternate=options.alternate,
        placer=options.placer,
        blockages=options.blockages,
        density=options.density,
    )
    found, unrouted, used = [], {}, {}
    for done, seed in enumerate(range(options.first, options.first + options.seeds)):
        with shown(console, f"seed {seed}, {done + 1} of {options.seeds}") as tell:
            try:
                if target == "gw5a":
                    placement, used = gw5a.place_on_gw5a(design, seed, how, tell, build.memories)
                else:
                    placement = place(design, part.removeprefix("LFE5U-"), seed, how, tell)
                found.append(placement)
            except UnroutedError as why:
                unrouted[seed] = why
            except gw5a.OverfullError as error:
                sys.exit(f"{options.config}: {error}")
    on = [gw5a.PART] if target == "gw5a" else []
    name = "-".join(filter(None, (options.config, options.block, *on)))
    content = {
        **identity(options.config),
        "block": options.block,
        "flat": bool(options.flat),
        "part": part,
        **asdict(how),
        "fmax_mhz": {placement.seed: placement.fmax_mhz for placement in found},
        "seeds": [asdict(placement) for placement in found],
        "unrouted": {seed: vars(why) for seed, why in unrouted.items()},
        **({"used": used} if used else {}),
    }
    path = write_report("pnr", name, content)
    console.print(placements_table(f"{name} on {part}", found, unrouted))
    if found:
        ends = list(found[0].ends.items())[:_ENDS]
        console.print(f"longest paths by the block where they end, ns, seed {found[0].seed}:")
        console.print(", ".join(f"{block} {delay:.1f}" for block, delay in ends))
    if used:
        console.print("cells: " + ", ".join(f"{count:,} {kind}" for kind, count in used.items()))
    print(path)
    sys.exit(not found)


if __name__ == "__main__":
    main()
