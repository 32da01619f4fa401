"""Values as text of C99."""

import re
import textwrap
from collections.abc import Mapping, Sequence

import numpy as np

_WIDTH = 100


class Code(str):
    """An expression of C, to be written as it is."""


def identifier(name: str) -> str:
    """Return a name that C accepts, and that no file of ours has.

    Examples
    --------
    >>> identifier("kws"), identifier("mobilenet_v2_1.0"), identifier("8x8 net"), identifier("main")
    ('kws', 'mobilenet_v2_1_0', 'net_8x8_net', 'net_main')
    """
    plain = re.sub(r"[^0-9A-Za-z_]", "_", name)
    return f"net_{plain}" if re.match(r"[0-9_]|tpulite|main$|$", plain) else plain


def quoted(text: str) -> Code:
    r"""Return a string literal.

    Examples
    --------
    >>> print(quoted('a "b"'))
    "a\040\"b\""
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("?", "\\?")
    plain = "".join(c if " " <= c <= "~" else "?" for c in escaped)
    return Code(f'"{plain}"'.replace(" ", "\\040"))  # lines are broken at spaces


def initializer(value: object) -> str:
    """Return what stands behind ``=``: mappings give designated initializers.

    Examples
    --------
    >>> initializer({"count": 2, "values": [np.float32(0.5), Code("NULL")]})
    '{.count = 2, .values = {0x1.0000000000000p-1f, NULL}}'
    """
    if isinstance(value, Code):
        return str(value)
    if isinstance(value, Mapping):
        fields = (f".{name} = {initializer(field)}" for name, field in value.items())
        return "{" + ", ".join(fields) + "}"
    if isinstance(value, np.ndarray | Sequence):
        return "{" + ", ".join(map(initializer, value)) + "}"
    if isinstance(value, float | np.floating):
        return f"{float(value).hex()}f"
    assert isinstance(value, int | np.integer), value
    # The literal of the least integer would be a negation of one that is too large.
    return f"({int(value) + 1} - 1)" if value == -(1 << 31) else str(int(value))


def define(ctype: str, name: str, value: object, *, extent: str = "") -> str:
    """Return the definition of a constant."""
    return _wrapped(f"{ctype} {name}{extent} = {initializer(value)};") + "\n"


def array(ctype: str, name: str, values: np.ndarray) -> str:
    """Return the definition of a constant array with all elements of an array."""
    return define(f"const {ctype}", name, values.reshape(-1), extent=f"[{values.size}]")


def table(ctype: str, name: str, rows: Sequence[object]) -> str:
    """Return the definition of a constant array of structures."""
    text = ",\n".join(_wrapped(f"    {initializer(row)}") for row in rows)
    return f"static const {ctype} {name}[] = {{\n{text}}};\n\n"


def _wrapped(text: str) -> str:
    return textwrap.fill(
        text, _WIDTH, subsequent_indent="        ", break_long_words=False, break_on_hyphens=False
    )
