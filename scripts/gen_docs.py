"""Write docs/isa.md and the C header of the driver from tpulite.arch; --check only compares."""

import argparse
import ast
import inspect
import itertools
import re
import sys
from dataclasses import asdict
from enum import IntEnum, IntFlag
from pathlib import Path
from types import ModuleType

from generated import write_or_compare
from markdown_table import table
from tpulite.arch import effects, isa, memory, registers, timing
from tpulite.arch.bitfield import Field, Layout
from tpulite.arch.config import BEAT_BYTES, COMMAND_BYTES, RECORD_BYTES, Config
from tpulite.arch.numerics import Rounding
from worked_command import worked_command

ROOT = Path(__file__).resolve().parents[1]

NOTICE = "Generated from tpulite.arch by scripts/gen_docs.py; run `make docs` after a change there."

Enumeration = type[IntEnum] | type[IntFlag]

REGISTER_ENUMS: tuple[Enumeration, ...] = (
    registers.Control,
    registers.RunState,
    registers.Interrupt,
    registers.Fault,
    registers.Permission,
    registers.EngineState,
)


FIELD_ENUMS: tuple[Enumeration, ...] = (
    isa.Engine,
    isa.Axis,
    isa.Drain,
    isa.RecordForm,
    isa.VectorOp,
    isa.Scaling,
    Rounding,
)


def member_docs(enum: Enumeration) -> dict[str, str]:
    """Return the text of the ``#:`` comment behind each member of an enumeration."""
    return dict(re.findall(r"^    (\w+) = .*?#: (.*)$", inspect.getsource(enum), re.MULTILINE))


def parameter_docs(documented: type) -> dict[str, str]:
    """Return the texts of the ``Parameters`` section of a class's docstring."""
    text = inspect.getdoc(documented) or ""
    section = text.split("Parameters\n----------\n")[1]
    entries = re.findall(r"^(\w+) : .*\n((?:    .*\n?)+)", section, re.MULTILINE)
    return {name: markdown(" ".join(body.split())) for name, body in entries}


def constant_docs(module: ModuleType) -> dict[str, str]:
    """Return the docstring of each public constant of a module."""
    body = ast.parse(inspect.getsource(module)).body
    docs = {}
    for node, after in itertools.pairwise(body):
        if isinstance(node, ast.Assign) and isinstance(after, ast.Expr):
            (target,) = node.targets
            assert isinstance(target, ast.Name)
            assert isinstance(after.value, ast.Constant)
            docs[target.id] = markdown(" ".join(str(after.value.value).split()))
    return {name: text for name, text in docs.items() if not name.startswith("_")}


def timing_section() -> list[str]:
    """Return what commands cost, constants first, then what follows from them at N = 16."""
    config = Config()
    constants = constant_docs(timing).items()
    overheads = [
        (
            f"`{operation.name}`",
            effects.parameter_rows(operation, config),
            timing.vector_overhead(operation, config),
        )
        for operation in isa.VectorOp
    ]
    return [
        "## Timing",
        "",
        "Latencies and overheads of commands in cycles, with the RTL component that causes each.",
        "[0004](decisions/0004-the-cycle-model.md) describes how the cycle model uses these",
        "figures event by event.",
        "",
        *table("name|cycles|meaning", [(f"`{n}`", getattr(timing, n), t) for n, t in constants]),
        "The matrix unit processes a k-tile of S slots in max(S, N) cycles, or in max(S, N / 2)",
        "if its weights are int4. It loses no cycles",
        "between k-tiles, or between commands whose operands and tokens are available. S is the",
        "number of output vectors, in dense mode plus one per row; in depthwise mode it is the",
        "number of input vectors. In the last k-tile a raw vector takes four cycles, and a",
        "requantized one N / lanes. From its last sum to its token a CONV takes",
        f"{timing.conv_latency(isa.Drain.REQUANTIZE, config)} cycles at N = {config.array_size}; a",
        "CONV that waits for it has its first slot",
        f"{timing.turnaround(config)} cycles after that sum.",
        "",
        "The vector path reads one row per cycle and computes a vector in N / lanes cycles, or in",
        "twice as many for ADD and SUB. It starts a VECTOR when the previous one is complete. In",
        "addition to the cycles of its windows, a VECTOR takes the following overhead at",
        f"N = {config.array_size}:",
        "",
        *table("operation|rows of parameters|cycles", overheads),
        "LOAD and STORE move one row per cycle; at N = 32 they move one row in two cycles.",
        "",
    ]


def effects_section() -> list[str]:
    """Return what each command reads and writes: the specification itself."""
    parts = (
        effects.effects,
        effects.steps_of,
        *(
            getattr(effects, f"_{name}_steps")
            for name in ("transfer", "conv", "depthwise", "vector")
        ),
        *(getattr(effects, name) for name in ("_region", "_input_rows", "output_rows")),
        *(effects.early_rows, effects.early_weights, effects.lines_of, effects.accumulator_rows),
        *(effects.tile_count, effects.tile_rows, effects.record_rows, effects.parameter_rows),
    )
    text = inspect.getdoc(effects) or ""
    return [
        "## What commands read and write",
        "",
        *markdown(text).splitlines(),
        "",
        "This is the source of `tpulite.arch.effects`, with which the golden model, the race",
        "detector and the benches are compared. `config.row_bytes` is N.",
        "",
        *(
            line
            for part in parts
            for line in ["```python", inspect.getsource(part).rstrip(), "```", ""]
        ),
    ]


def markdown(text: str) -> str:
    """Return the text of a docstring in Markdown: no roles, and one backquote where reST has two.

    Names of :mod:`tpulite.arch.numerics` keep their module, because others are called alike.

    Examples
    --------
    >>> markdown("``a`` of :func:`some.module.b`")
    '`a` of `b`'
    """
    return re.sub(r":\w+:`[\w.]*?((?:numerics\.)?\w+)`|``(.+?)``", r"`\1\2`", text)


def enum_table(enum: Enumeration) -> list[str]:
    """Return the members of an enumeration, below its docstring."""
    docs = member_docs(enum)
    text = [f"### {enum.__name__}", "", markdown(inspect.getdoc(enum) or ""), ""]
    if len(docs) < len(enum):
        return text + table("value|name", [(int(member), member.name) for member in enum])
    rows = [(int(member), member.name, docs[str(member.name)]) for member in enum]
    return text + table("value|name|meaning", rows)


def layout_section(layout: Layout) -> list[str]:
    """Return the fields of a command or record, below its docstring."""
    rows = []
    for field, low in zip(layout.fields, layout.offsets().values(), strict=True):
        high = low + field.width - field.behind - 1
        bits = f"{high}:{low}" if high > low else str(low)
        if field.behind:
            bits = f"{layout.grown[field.name]}, {bits}"
        rows.append((bits, f"`{field.name}`", legal_values(field), field.doc))
    return [f"### {layout.name}", "", layout.doc, "", *table("bits|field|values|meaning", rows)]


def legal_values(field: Field) -> str:
    """Return the legal values of a field as text."""
    if field.enum is not None:
        return f"{field.enum.__name__}"
    low = field.range[0] if field.minimum is None else field.minimum
    text = f"{low} … {field.range[-1]}"
    return text if field.multiple == 1 else f"{text}, multiples of {field.multiple}"


def illegal_rules() -> list[str]:
    """Return what `isa.illegal_combination` says to one example of each rule."""
    config = Config(requant_lanes=1, softmax=False, transposed_tiles=False)
    able = Config(int16=True, transposed_tiles=True, int4=True)
    depthwise = {"depthwise": 1, "blocks": 1}
    conv, vector = isa.Opcode.CONV, isa.Opcode.VECTOR
    examples = (
        (conv, {"byte_step": config.array_size + 1}),
        (conv, {"byte_step": 1, "depthwise": 1}),
        (conv, depthwise | {"blocks": 2}),
        (conv, depthwise | {"drain": isa.Drain.RAW}),
        (conv, depthwise | {"drain": isa.Drain.REQUANTIZE}),
        (vector, {"operation": isa.VectorOp.NORM}),
        (vector, {"tail": 1}),
        (conv, {"int16": 1}),
        (conv, {"int16": 1, "depthwise": 1, "blocks": 1}),
        (conv, {"int16": 1, "drain": isa.Drain.RAW}),
        (conv, {"int16": 1, "columns": 1}),
        (conv, {"int16": 1, "acc_row": 1}),
        (conv, {"int16": 1, "stride_x": 8}),
        (conv, {"transposed": 1}),
        (conv, {"transposed": 1, "byte_step": 1}),
        (conv, {"int4": 1}),
        (conv, {"int4": 1, "transposed": 1}),
        (conv, {"int4": 1, "weight_zero_point": 1}),
        (conv, {"digit": 1}),
    )
    rules = []
    for opcode, fields in examples:
        machine = (
            able if len(fields) > 1 and {"int16", "transposed", "int4"} & {*fields} else config
        )
        rule = isa.illegal_combination(isa.Command.make(opcode, **fields), machine)
        assert rule is not None, fields
        rules.append(re.sub(rf"\b{config.array_size}\b", "N", re.sub(r", not \d+$", "", rule)))
    return rules


def isa_page() -> str:
    """Return docs/isa.md."""
    config = Config()
    registers_ = [
        (
            f"0x{r.offset:03X}",
            r.name,
            r.access.name.replace("_", " ").lower(),
            f"0x{r.kept:08X}" if r.access == registers.Access.READ_WRITE else "",
            hex(r.reset),
            r.doc,
        )
        for r in registers.REGISTERS
    ]
    windows = member_docs(memory.Window)
    timing = memory.REFERENCE_MEMORY
    docs = parameter_docs(Config)
    lines = [
        "# Commands, records, registers and memory",
        "",
        NOTICE,
        "",
        "[Numerics](numerics.md) defines the arithmetic. Decisions",
        "[0001](decisions/0001-the-machine.md) and [0003](decisions/0003-networks.md) explain",
        "the rules that no table shows.",
        "",
        "## Commands",
        "",
        f"A command has {COMMAND_BYTES} bytes, little-endian in DRAM. Bits outside its fields must",
        "be 0; otherwise the command is a fault (FIELD). N is the array size of the machine. The",
        "following combinations of fields, some of them only on some machines, are the same fault:",
        "",
        *[f"- {rule}" for rule in illegal_rules()],
        "",
        *enum_table(isa.Opcode),
        *[line for layout in isa.COMMANDS.values() for line in layout_section(layout)],
        *worked_command(),
        "## Channel records",
        "",
        *layout_section(isa.RECORD),
        "## Parameters of VECTOR",
        "",
        "Parameters are stored in the unified buffer from `param_row` on; each part begins at a",
        "row. The table of [operations](#vectorop) shows which parts an operation needs. The",
        f"record is a channel record, whose bias is used. The table of a LUT has {isa.LUT_BYTES}",
        "bytes: the results for the inputs -128 to 127, in this order. The words of NORM and SHARE",
        f"have {isa.WORDS_BYTES} bytes: the lowest bytes of all words, then the",
        "second ones, and so on.",
        "",
        *layout_section(isa.OPERANDS),
        *layout_section(isa.NORM),
        *effects_section(),
        *timing_section(),
        "## Values of fields",
        "",
        *[line for enum in FIELD_ENUMS for line in enum_table(enum)],
        "Each ordered pair of engines has a token counter, including each engine with itself. Its",
        f"range is 0 to {isa.TOKEN_MAX}.",
        "",
        "## Registers",
        "",
        "Registers are accessed by AXI4-Lite and have 32 bits each. Those from 0x100 on are",
        "counters: START clears them, the interrupt stops them, and the states of each engine sum",
        "to CYCLES. Bits outside the mask `stored bits` are ignored on writes and read as zero.",
        "",
        *table("offset|name|access|stored bits|reset|meaning", registers_),
        *[line for enum in REGISTER_ENUMS for line in enum_table(enum)],
        "## Memory",
        "",
        f"The DRAM interface is AXI4 with {8 * BEAT_BYTES} bits of data and",
        f"{memory.ADDRESS_BITS} bits of address. Bursts do not cross a multiple of",
        f"{memory.PAGE_BYTES} bytes. Commands name a window and an offset; the CPU assigns an",
        f"address, a size and permissions to each of the {memory.WINDOWS} windows. The",
        "compiler uses the windows as follows:",
        "",
        *table("window|name|contents", [(int(w), w.name, windows[w.name]) for w in memory.Window]),
        "Cycle counts refer to the reference memory, in clock edges:",
        "",
        *table(
            "time|edges|meaning",
            [
                (f"`{name}`", getattr(timing, name), text)
                for name, text in parameter_docs(memory.MemoryTiming).items()
            ],
        ),
        "## Configuration",
        "",
        "All parameters that hardware and software must agree on; `CONFIG_HASH` identifies them.",
        "The hash leaves out fields that are `False`, and has fields that machines once had:",
        "`multipliers`, `dsp`, and with delay lines `vector_pairs` and `wide_lines`, `True`. How a",
        "chip is written (`tpulite.arch.build`) does not count; `ecp5-25`, `ecp5-45` and `ecp5-85`",
        "show the hashes that they had when it did.",
        "",
        *table(
            "field|default|meaning",
            [(f"`{name}`", f"`{value}`", docs[name]) for name, value in asdict(config).items()],
        ),
    ]  # fmt: skip
    return "\n".join(lines).rstrip() + "\n"


def c_header() -> str:
    """Return sw/tpulite/firmware/tpulite_regs.h."""
    sections = [
        ("Byte offsets of the registers", [(r.name, r.offset, r.doc) for r in registers.REGISTERS]),
        (
            "Other constants for drivers",
            [
                ("ID_VALUE", registers.IDENTIFICATION, "Value of ID."),
                ("VERSION_VALUE", registers.VERSION, "Value of VERSION."),
                ("WINDOWS", memory.WINDOWS, "DRAM windows."),
                (
                    "WINDOW_STRIDE",
                    _window_stride(),
                    "Distance between the registers of two windows.",
                ),
                ("COMMAND_BYTES", COMMAND_BYTES, "Bytes of a command."),
                ("BEAT_BYTES", BEAT_BYTES, "Alignment of programs and windows."),
                ("RECORD_BYTES", RECORD_BYTES, "Bytes of a channel record."),
            ],
        ),
    ]
    for enum in REGISTER_ENUMS:
        docs = member_docs(enum)
        prefix = enum.__name__.upper()
        rows = [(f"{prefix}_{m.name}", int(m), docs.get(str(m.name), "")) for m in enum]
        sections.append((f"{enum.__name__}: {enum.__doc__}", rows))

    names = [name for _, rows in sections for name, _, _ in rows]
    assert len(names) == len(set(names)), "two constants of one name"
    lines = [f"/* {NOTICE} */", "#ifndef TPULITE_REGS_H", "#define TPULITE_REGS_H", ""]
    for title, rows in sections:
        lines.append(f"/* {title} */")
        for name, value, doc in rows:
            comment = f" /* {doc} */" if doc else ""
            lines.append(f"#define TPULITE_{name:<24} 0x{value:X}u{comment}")
        lines.append("")
    return "\n".join([*lines, "#endif"]) + "\n"


def c_fields() -> str:
    """Return sw/tpulite/firmware/bind/tpulite_fields.h."""
    conv = isa.COMMANDS[isa.Opcode.CONV]
    numbers = {
        "TOKEN_MAX": isa.TOKEN_MAX,
        "WAIT_BIT": conv.offsets()["wait"],
        "SIGNAL_BIT": conv.offsets()["signal"],
        "PREFETCH_BIT": conv.offsets()["prefetch"],
    }
    numbers |= {f"OPCODE_{member.name}": int(member) for member in isa.Opcode}
    numbers |= {f"ENGINE_{member.name}": int(member) for member in isa.Engine}
    numbers |= {f"WINDOW_{member.name}": int(member) for member in memory.Window}
    lines = [f"/* {NOTICE} */", "#ifndef TPULITE_FIELDS_H", "#define TPULITE_FIELDS_H", ""]
    lines += [f"#define TPULITE_{name:<24} {value}u" for name, value in numbers.items()]
    lines += ["", "/* Fields of commands: a STORE has those of a LOAD. */"]
    for opcode in (isa.Opcode.LOAD, isa.Opcode.VECTOR, isa.Opcode.CONV):
        layout = isa.COMMANDS[opcode]
        for field in layout.fields[len(isa.HEADER) :]:
            values = {
                "offset": layout.offsets()[field.name],
                "width": field.width - field.behind,
                "is_signed": int(field.signed),
                "least": field.minimum or 0,
                "multiple": field.multiple,
                "more_offset": layout.grown.get(field.name, 0),
                "more": field.behind,
            }
            what = ", ".join(map(str, values.values()))
            lines.append(f"#define TPULITE_{opcode.name + '_' + field.name.upper():<24} {{{what}}}")
    return "\n".join([*lines, "", "#endif"]) + "\n"


def _window_stride() -> int:
    return registers.offset_of("WINDOW1_LOW") - registers.offset_of("WINDOW0_LOW")


def main() -> int:
    """Write or compare the files; 1 if one of them is stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if stale")
    parser.add_argument("--root", type=Path, default=ROOT, help="root of the tree to write to")
    options = parser.parse_args()

    files = {
        "docs/isa.md": isa_page(),
        "sw/tpulite/firmware/tpulite_regs.h": c_header(),
        "sw/tpulite/firmware/bind/tpulite_fields.h": c_fields(),
    }
    source = "what tpulite.arch says"
    return write_or_compare(options.root, files, check=options.check, source=source)


if __name__ == "__main__":
    sys.exit(main())
