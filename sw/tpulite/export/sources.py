"""The C sources of an exported network."""

import re
from collections.abc import Iterator

import numpy as np

from tpulite.arch.memory import Window
from tpulite.export.c_text import Code, array, define, quoted, table
from tpulite.export.network import (
    ExportedNetwork,
    ExportedProgram,
    ExportedState,
    HostStep,
    HostTensor,
)

_WORD = 4


def header_text(network: ExportedNetwork, name: str) -> str:
    """Return the header: sizes, places of inputs and outputs, and what the sources define."""
    upper = name.upper()
    lines = [f"/* {_described(network)} */"]
    lines += [f"#ifndef {upper}_H", f"#define {upper}_H", "", '#include "tpulite_network.h"', ""]
    sizes = {
        "CONFIG_HASH": f"{network.config.hash:#x}u",
        "BATCH": f"{network.batch}u",
        "IMAGE_BYTES": f"{len(network.image)}u",
        "MEMORY_BYTES": f"{network.memory_bytes}u",
    }
    for place in ("INPUT", "OUTPUT"):
        for each in _placed(network, place):
            sizes[f"{place}_{each.index}_BYTES"] = f"{network.batch * each.nbytes}u"
    sizes["CLASSES"] = f"{network.classes}u"
    lines += [f"#define {upper}_{what} {size}" for what, size in sizes.items()]
    lines.append("")
    for place in ("INPUT", "OUTPUT"):
        lines.append(f"/* {place.lower()}s, of {network.batch} each:")
        lines += [_listed(each) for each in _placed(network, place)]
        lines.append(" */")
    if network.states:
        lines.append("/* states, which tpulite_network_reset sets before the first run:")
        lines += [_state_listed(each) for each in network.states]
        lines.append(" */")
    lines += [
        "",
        f"extern const tpulite_network {name}_network;",
        f"extern const uint32_t {name}_image[{upper}_IMAGE_BYTES / {_WORD}];",
        f"extern uint8_t {name}_memory[{upper}_MEMORY_BYTES];",
        "",
        "/* Run the reference inputs once; `wrong` is how many bytes of the results differ. They",
        " * are in `outputs`, in the order of the network's. */",
        f"tpulite_status {name}_selftest(const tpulite_placement *placement, uint32_t *wrong,",
        "    tpulite_account *account);",
        f"extern void *const {name}_outputs[];",
        "",
        "#endif",
    ]
    return "\n".join(lines) + "\n"


def network_text(network: ExportedNetwork, name: str) -> str:
    """Return the source with tensors, steps and the network itself."""
    parts = [
        f"/* {_described(network)} */\n"
        f'#include "{name}.h"\n'
        f'#include "tpulite_host.h"\n\n#ifndef NULL\n#define NULL ((void *)0)\n#endif\n'
    ]
    fields = []
    for number, each in enumerate(network.tensors):
        constant: object = Code("NULL")
        if each.place == "CONSTANT":
            assert each.tensor.data is not None
            data = np.broadcast_to(each.tensor.data, (network.batch, *each.tensor.shape))
            ctype = "float" if data.dtype == np.float32 else f"{data.dtype}_t"
            parts.append(f"static {array(ctype, f'constant_{number}', data)}")
            constant = Code(f"constant_{number}")
        fields.append(_tensor_fields(each) | {"constant": constant})
    parts.append(table("tpulite_tensor", "tensors", fields))
    steps = []
    for number, step in enumerate(network.steps):
        source = _host_source if isinstance(step, HostStep) else _program_source
        text, step_fields = source(step, f"step_{number}")  # type: ignore[arg-type]
        parts.append(text)
        steps.append(step_fields)
    parts.append(table("tpulite_step", "steps", steps))
    if network.states:
        parts += _states(network)
    whole = {
        "name": quoted(network.graph.name),
        "config_hash": Code(f"{name.upper()}_CONFIG_HASH"),
        "batch": network.batch,
        "image_bytes": Code(f"{name.upper()}_IMAGE_BYTES"),
        "memory_bytes": Code(f"{name.upper()}_MEMORY_BYTES"),
        "tensors": Code("tensors"),
        "steps": Code("steps"),
        "states": Code("states" if network.states else "NULL"),
        "tensor_count": len(network.tensors),
        "step_count": len(network.steps),
        "state_count": len(network.states),
        "input_count": len(network.graph.inputs),
        "output_count": len(network.graph.outputs),
        "classes": network.classes,
    }
    parts.append(define("const tpulite_network", f"{name}_network", whole))
    return "\n".join(parts)


def image_text(network: ExportedNetwork, name: str) -> str:
    """Return the source of the image and of the memory, which the linker script places."""
    words = np.frombuffer(network.image, "<u4")
    rows = (
        ", ".join(f"{word:#010x}" for word in words[i : i + 8].tolist()) + ","
        for i in range(0, len(words), 8)
    )
    return (
        f"/* {_described(network)}: what the chip reads, as little-endian words, and where it and\n"
        f" * the host write. {name}_image.bin holds the same bytes as the first array. */\n"
        f'#include "{name}.h"\n\n'
        "#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__\n"
        '#error "load the .bin file instead"\n'
        "#endif\n\n"
        f"TPULITE_IN_IMAGE const uint32_t {name}_image[{len(words)}] = {{\n"
        + "\n".join(rows)
        + f"\n}};\n\nTPULITE_IN_MEMORY uint8_t {name}_memory[{name.upper()}_MEMORY_BYTES];\n"
    )


def _described(network: ExportedNetwork) -> str:
    name = re.sub(r"[^\w .+-]", "?", network.graph.name)
    size = network.config.array_size
    return f"{name} for {size}x{size} multipliers, by tpulite export"


def _placed(network: ExportedNetwork, place: str) -> Iterator[HostTensor]:
    return (each for each in network.tensors if each.place == place)


def _listed(each: HostTensor) -> str:
    tensor, q = each.tensor, each.tensor.quantization
    shape = "x".join(map(str, tensor.shape))
    meaning = "" if q is None else f", scale {q.scale[0]:.9g}, zero point {q.zero_point[0]}"
    name = re.sub(r"\*/|/\*", "?", tensor.name)
    return f" *   {each.index}: {name}: {tensor.dtype} {shape}{meaning}"


def _state_listed(each: ExportedState) -> str:
    value = each.state.initial
    name = re.sub(r"\*/|/\*", "?", each.state.name)
    return f" *   {name}: {value.dtype} {'x'.join(map(str, value.shape))}"


def _tensor_fields(each: HostTensor) -> dict[str, object]:
    tensor, q = each.tensor, each.tensor.quantization
    one_scale = q is not None and q.axis is None
    return {
        "name": quoted(tensor.name),
        "type": Code(f"TPULITE_{tensor.dtype.upper()}"),
        "bytes": each.nbytes,
        "rank": len(tensor.shape),
        "shape": list(tensor.shape) or [0],
        "scale": q.scale[0] if q is not None and one_scale else np.float32(0),
        "zero_point": q.zero_point[0] if q is not None and one_scale else 0,
        "place": Code(f"TPULITE_{each.place}"),
        "index": each.index,
    }


def _host_source(step: HostStep, name: str) -> tuple[str, dict[str, object]]:
    call, text = step.call, ""
    fields = call.fields
    for field, values in call.pointers.items():
        assert not isinstance(fields, int)
        ctype = "float" if values.dtype == np.float32 else f"{values.dtype}_t"
        text += f"static {array(ctype, f'{name}_{field}', values)}"
        fields = {**fields, field: Code(f"{name}_{field}")}
    text += define(f"static const {call.arguments}", f"{name}_arguments", fields)
    first, *more = step.sources
    return text, {
        "combine" if more else "compute": Code(call.function),
        "arguments": Code(f"&{name}_arguments"),
        "from": first,
        "other": more[0] if more else first,
        "to": step.target,
    }


def _states(network: ExportedNetwork) -> Iterator[str]:
    """Yield the values before the first run, and the table of the states."""
    rows = []
    for number, each in enumerate(network.states):
        value = each.state.initial
        ctype = "float" if value.dtype == np.float32 else f"{value.dtype}_t"
        yield f"static {array(ctype, f'first_{number}', value)}"
        initial = Code(f"first_{number}")
        rows.append({"from": each.source, "to": each.target, "initial": initial})
    yield table("tpulite_state", "states", rows)


def _program_source(step: ExportedProgram, name: str) -> tuple[str, dict[str, object]]:
    program, text = step.program, ""
    for what, layouts in (("inputs", step.inputs), ("outputs", step.outputs)):
        text += table("tpulite_layout", f"{name}_{what}", list(layouts))
    fields = {
        "commands": step.commands,
        "command_count": len(program.commands),
        "constants": step.constants,
        "constants_bytes": program.window_bytes[Window.CONSTANTS],
        "offset": [step.windows.get(window, 0) for window in Window],
        "bytes": [program.window_bytes[window] if window else 0 for window in Window],
        "inputs": Code(f"{name}_inputs"),
        "outputs": Code(f"{name}_outputs"),
        "input_count": len(step.inputs),
        "output_count": len(step.outputs),
    }
    text += define("static const tpulite_program", name, fields)
    return text, {"program": Code(f"&{name}")}
