"""Tensors of a network of a shape in C: how the host has them, and how they lie for the chip."""

from collections.abc import Iterator, Mapping
from typing import Any

from tpulite.arch.memory import Window
from tpulite.compiler.bind.network import Network
from tpulite.compiler.bind.sizes import Sizes
from tpulite.export.c_text import Code, quoted
from tpulite.export.network import layout_fields
from tpulite.export.ranges.c_formulas import CFormulas
from tpulite.export.ranges.selector import symbols_of
from tpulite.export.ranges.symbols import Formulas, Symbol
from tpulite.tensor_spec import TensorSpec

_WINDOWS = (Window.INPUT, Window.OUTPUT)


def tensors_text(network: Network) -> str:
    """Return the function that fills tensors, layouts and the sizes of windows for a shape."""
    formulas = Formulas()
    shape = symbols_of(formulas)
    inputs, outputs = Sizes(network, shape, shape.batch).specs()
    specs = (*inputs, *outputs)
    values: list[tuple[str, Mapping[str, Any]]] = []
    for number, spec in enumerate(specs):
        layout = layout_fields(spec, network.config, tensor=number, offset=0)
        index = number if number < len(inputs) else number - len(inputs)
        values.append((f"tensors[{number}]", _tensor(spec, index)))
        values.append((f"layouts[{number}]", layout))
    ends = {spec.window: spec.offset + spec.nbytes(network.config) for spec in specs}
    leaves = [*_leaves([fields for _, fields in values]), *ends.values()]
    written = CFormulas(formulas, leaves)
    lines = ["static void lay_out(const tpulite_shape *shape, tpulite_bound *bound)", "{"]
    lines += written.definitions
    for what, fields in values:
        kind = what.partition("s[")[0]
        lines.append(f"    bound->{what} = (tpulite_{kind}){{")
        lines += [f"        .{name} = {_text(value, written)}," for name, value in fields.items()]
        lines.append("    };")
    for window in _WINDOWS:
        size = written.of(ends[window])
        lines.append(f"    bound->program.bytes[TPULITE_WINDOW_{window.name}] = (uint32_t){size};")
    return "\n".join([*lines, "}"]) + "\n"


def _tensor(spec: TensorSpec, index: int) -> dict[str, Any]:
    count: Any = 4 if spec.dtype == "int32" else 1
    for extent in spec.shape:
        count = extent * count
    return {
        "name": quoted(spec.name),
        "type": Code(f"TPULITE_{spec.dtype.upper()}"),
        "bytes": count,
        "rank": len(spec.shape),
        "shape": spec.shape,
        "place": Code(f"TPULITE_{spec.window.name}"),
        "index": index,
    }


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        value = [*value.values()]
    if isinstance(value, list | tuple):
        for each in value:
            yield from _leaves(each)
    elif isinstance(value, Symbol):
        yield value


def _text(value: Any, written: CFormulas) -> str:
    if isinstance(value, Code):
        return str(value)
    if isinstance(value, Mapping):
        fields = (f".{name} = {_text(field, written)}" for name, field in value.items())
        return "{" + ", ".join(fields) + "}"
    if isinstance(value, tuple):
        return "{" + ", ".join(_text(each, written) for each in value) + "}"
    return f"(uint32_t){written.of(value)}" if isinstance(value, Symbol) else str(int(value))
