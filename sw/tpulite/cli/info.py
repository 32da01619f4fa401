"""The commands ``info`` and ``disasm``: what files hold."""

from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import click
from rich.console import Console

from tpulite.arch.isa import disassemble
from tpulite.archive import holds
from tpulite.cli.common import say
from tpulite.cli.help import command, option
from tpulite.configs import CONFIGS, named_chip, named_config
from tpulite.frontend.files import network_name
from tpulite.near import which_file
from tpulite.parts import SIZES
from tpulite.program import Program
from tpulite.report import report_programs
from tpulite.report.compilation import summary
from tpulite.report.products import dense_products
from tpulite.runtime.device import device_names
from tpulite.runtime.model_file import is_model_file, load_model_file
from tpulite.zoo import network_names


@command()
@click.argument("program", type=click.Path(path_type=Path))
@option(
    "--products",
    is_flag=True,
    help="Show which input and weight blocks each command multiplies (dense layers only).",
)
def disasm(program: Path, products: bool) -> None:
    """Print the commands of a program or of a compiled network, one per line."""
    programs = _programs(program)
    show = _product_lines if products else _command_lines
    lines = [show(part) for part in programs]
    if products and not any(lines):
        raise ValueError(f"{program}: --products needs dense layers, and there are none")
    for number, part in enumerate(lines):
        if len(programs) > 1:
            click.echo(f"program {number}")
        for line in part:
            click.echo(line)


def _programs(path: Path) -> tuple[Program, ...]:
    """Return the programs of a compiled file; of another network say how it is compiled."""
    if not path.exists() and str(path) not in network_names():
        raise ValueError(f"{path}: no such file{which_file(path)}")
    if is_model_file(path):
        return load_model_file(path).programs
    if not _may_be_program(path):
        words = f"tpulite compile {path} -o {network_name(path)}.tpulite"
        raise ValueError(f"{path} is not a compiled network; compile it first: {words}")
    return (Program.load(path),)


def _may_be_program(path: Path) -> bool:
    """Tell whether a file is a program, or a damaged one by its name."""
    return path.suffix in (".tpl", ".tpulite") or holds("program", path)


def _command_lines(program: Program) -> list[str]:
    commands = enumerate(program.commands)
    return [f"{index:5}  {disassemble(command)}" for index, command in commands]


def _product_lines(program: Program) -> list[str]:
    """Return a line for each product: command, layer, blocks, accumulators, place in the sum."""
    products = dense_products(program)
    names = max((len(each.layer) for each in products), default=0)
    blocks = max((len(each.blocks) for each in products), default=0)
    lines = []
    for each in products:
        rows = f"acc {each.accumulators[0]}..{each.accumulators[-1]}"
        words = f"{each.layer:{names}}  {each.blocks:{blocks}}  {rows:<11}  {each.position}"
        lines.append(f"{each.index:5}  {words}")
    return lines


@command()
@click.argument("file", type=click.Path(path_type=Path), required=False, metavar="[FILE|CONFIG]")
def info(file: Path | None) -> None:
    """Describe a compiled file or a configuration; by default list configurations and devices.

    For a network that is not compiled, use inspect.
    """
    if file is not None:
        if not file.exists() and str(file).split(",")[0] not in CONFIGS:
            hint = which_file(file, CONFIGS)
            raise ValueError(
                f"{file}: no such compiled file or configuration{hint}; for a network, type "
                f"tpulite inspect {file}"
            )
        console = Console()
        for line in (_contents(file) if file.exists() else _machine(str(file))).splitlines():
            say(console, line)
        return
    click.echo(f"tpulite {version('tpulite')}")
    for name in CONFIGS:
        click.echo(_heading(name))
        if size := SIZES.get(name):
            say(Console(), f"  {size.line}")
    click.echo(f"devices: {', '.join(device_names())}")


def _heading(name: str) -> str:
    config = named_config(name)
    return (
        f"config {name}: {config.array_size}x{config.array_size} multipliers, "
        f"{config.ub_bytes // 1024} KiB unified buffer, hash {config.hash:#010x}"
    )


def _machine(name: str) -> str:
    """Return a configuration's fields, and what it takes of an FPGA if that has been measured."""
    lines = [_heading(name)]
    config, build = named_chip(name)
    if size := SIZES.get(name):
        lines.append(f"  {size.line}")
        lines += [f"  {share:.0%} of its {what.upper()}" for what, share in size.shares.items()]
    for field, value in asdict(config).items():
        lines.append(f"  {field}: {', '.join(value) if isinstance(value, tuple) else value}")
    written = asdict(build)
    del written["target"]
    lines += [f"  verilog --{field.replace('_', '-')}: {value}" for field, value in written.items()]
    return "\n".join(lines)


def _contents(path: Path) -> str:
    if not is_model_file(path):
        if not _may_be_program(path):
            raise ValueError(f"{path} is not compiled; if it is a network: tpulite inspect {path}")
        return _details(Program.load(path))
    model = load_model_file(path)
    graph = model.graph
    lines = [f"network {graph.name}", f"  {model.statement()}"]
    for what, names in (("input", graph.inputs), ("output", graph.outputs)):
        tensors = [graph.tensors[name] for name in names]
        lines += [f"  {what} {x.name}: {x.dtype} {list(x.shape)}" for x in tensors]
    if graph.classes is not None:
        lines.append(f"  classes: {graph.classes}, the first values of the output")
    for state in graph.states:
        lines.append(f"  state {state.name}: {state.initial.dtype} {list(state.initial.shape)}")
    return "\n".join([*lines, *(_details(program) for program in model.programs)])


def _details(program: Program) -> str:
    lines = [
        f"program for {program.config.array_size}x{program.config.array_size} multipliers, "
        f"hash {program.config.hash:#010x}: {summary(program)}"
    ]
    lines.append(f"  {report_programs([program], cycles=False).line()}")
    for what, specs in (("input", program.inputs), ("output", program.outputs)):
        lines += [f"  {what} {x.name}: {x.dtype} {list(x.shape)}" for x in specs]
    lines += [f"  layer {x.name}: m {x.m}, k {x.k}, n {x.n}" for x in program.layers]
    return "\n".join(lines)
