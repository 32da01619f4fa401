"""The command ``verilog``: the chip for other tools."""

from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path

import click

from tpulite.arch.build import MEMORIES, MULTIPLIERS
from tpulite.atomic import write_whole
from tpulite.cli.help import Choice, command, option
from tpulite.cli.paths import FOLDER
from tpulite.configs import named_chip
from tpulite.needs import require_package


@command()
@click.argument("config_name", default="16x16", metavar="[CONFIG]")
@option(
    "-o",
    "--output",
    type=FOLDER,
    default=".",
    show_default=False,
    help="Folder to write to.  [default: here]",
)
@option(
    "--period",
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    help="Clock period in ns, for the constraints.",
)
@option(
    "--multipliers",
    type=Choice(MULTIPLIERS),
    help="dsp: left to synthesis; logic: adders; mostly_dsp: every eighth column in logic; "
    "half_dsp: every other column.  [default: as info CONFIG says]",
)
@option(
    "--memories",
    type=Choice(MEMORIES),
    help="generic: left to synthesis; block: block RAM is asked for; macro: modules tpulite_ram, "
    "which you write.  [default: as info CONFIG says]",
)
@option("--clock-gates", is_flag=True, help="Gate clocks by modules tpulite_clock_gate, yours too.")
@option(
    "--target",
    type=Choice(("generic", "ecp5", "gw5a", "xilinx")),
    default="generic",
    help="ecp5: use Lattice's carry cells where multipliers are logic; gw5a: instantiate Gowin's "
    "multipliers where they are not; xilinx: a DSP48E1 of a 7-series part for each such element.",
)
def verilog(config_name: str, output: Path, period: float, **written: str | bool | None) -> None:
    """Write the chip as one file of Verilog, with constraints, a core file and a README beside it.

    CONFIG is a name that info lists, with changed fields if you like: 8x8,ub_rows=4096.
    """
    config, build = named_chip(config_name)
    build = replace(build, **{name: value for name, value in written.items() if value})
    require_package("amaranth", "rtl", f"Verilog of {config_name}")
    # By name: software must run where no HDL is installed.
    text, constraints, beside = (
        import_module(f"tpulite_rtl.{module}")
        for module in ("verilog", "constraints", "integration")
    )
    library = import_module("tpulite_verilated.library")
    stem = text.file_stem(config_name)
    files = {
        ".v": text.header(config_name, config, build)
        + library.cached_verilog(config, build, portable=True),
        ".sdc": constraints.sdc(period),
        "_io.sdc": constraints.sdc_of_ports(period),
        ".lpf": constraints.lpf(period),
        ".core": beside.fusesoc_core(stem),
        ".md": beside.readme(stem, config),
    }
    output.mkdir(exist_ok=True)
    for suffix, content in files.items():
        path = output / f"{stem}{suffix}"
        write_whole(path, partial(Path.write_text, data=content))
        click.echo(path)
