"""``python -m tpulite_litex``: networks on the simulated LiteX system."""

import signal
import sys

import click

from tpulite_litex.exports import exported
from tpulite_litex.steps import check_machine
from tpulite_litex.system import CLOCK, CPUS, BuiltSystem, run_system
from tpulite_rtl.verilog import file_stem
from tpulite_verilated.toolchain import build_root


@click.command()
@click.argument("networks", nargs=-1)
@click.option("--config", default="4x4", show_default=True, help="Configuration of the chip.")
@click.option("--cpu", type=click.Choice(CPUS), default=CPUS[0], show_default=True)
@click.option(
    "--listen", type=click.IntRange(1, 65535), help="TCP port of localhost to listen on for a host."
)
@click.option(
    "--chip-clock",
    type=float,
    help="Clock frequency of the chip relative to the system's, like 1.25.",
)
def main(
    networks: tuple[str, ...], config: str, cpu: str, listen: int | None, chip_clock: float | None
) -> None:
    """Simulate a LiteX system with the chip, whose firmware runs NETWORKS.

    Each is `mlp`, the digits, or what `tpulite export` takes. The exit code is 1 if a bit of a
    result is not the golden machine's. With --listen no network runs, but
    `tpulite run NET --device litex:tcp:localhost:PORT` does, from another terminal.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the simulator ends with us
    try:
        special = (f"_{cpu}" if cpu != CPUS[0] else "", f"_{chip_clock}" if chip_clock else "")
        folder = build_root() / "soc" / "".join([file_stem(config), *special])
        hertz = round((chip_clock or 0) * CLOCK)
        system = BuiltSystem(folder, config, cpu=cpu, chip_clock=hertz)
        right = _simulate(networks, system, listen)
    except (OSError, RuntimeError, ValueError) as error:
        print(f"tpulite: {error}", file=sys.stderr)
        sys.exit(2)
    sys.exit(not right)


def _simulate(networks: tuple[str, ...], system: BuiltSystem, listen: int | None) -> bool:
    check_machine()
    system.folder.mkdir(parents=True, exist_ok=True)
    system.build({} if listen else exported(networks, system.config, system.folder))
    return run_system(system, listen)


if __name__ == "__main__":
    main()
