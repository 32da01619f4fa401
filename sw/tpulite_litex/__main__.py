"""``python -m tpulite_litex``: networks on the simulated LiteX system."""

import signal
import sys
from pathlib import Path

import click

from tpulite.export.c_text import identifier
from tpulite_litex.exports import DIGITS, export
from tpulite_litex.steps import check_machine
from tpulite_litex.system import BuiltSystem, run_system
from tpulite_rtl.verilated.toolchain import build_root
from tpulite_rtl.verilog import file_stem


@click.command()
@click.argument("networks", nargs=-1)
@click.option("--config", default="4x4", show_default=True, help="Configuration of the chip.")
@click.option("--listen", type=click.IntRange(1, 65535), help="TCP port where a host may come.")
def main(networks: tuple[str, ...], config: str, listen: int | None) -> None:
    """Simulate a LiteX system with the chip, whose firmware runs NETWORKS.

    Each is `mlp`, the digits, or what `tpulite export` takes. The exit code is 1 if a bit of a
    result is not the golden machine's. With --listen no network runs, but
    `tpulite run NET --device litex:tcp:localhost:PORT` does, from another terminal.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the simulator ends with us
    try:
        right = _simulate(networks, config, listen)
    except (OSError, RuntimeError, ValueError) as error:
        print(f"tpulite: {error}", file=sys.stderr)
        sys.exit(2)
    sys.exit(not right)


def _simulate(networks: tuple[str, ...], config: str, listen: int | None) -> bool:
    check_machine()
    folder = build_root() / "soc" / file_stem(config)
    folder.mkdir(parents=True, exist_ok=True)
    exports = {}
    for network in () if listen else networks or (DIGITS,):
        name = identifier(Path(network).stem)
        exports[name] = folder / "export" / name
        export(network, name, config, exports[name])
    system = BuiltSystem(folder, config)
    system.build(exports)
    return run_system(system, listen or 0)


if __name__ == "__main__":
    main()
