"""The syntax of Liberty files: groups of attributes and of other groups."""

import re
from dataclasses import dataclass, field

__all__ = ["Group", "numbers", "parse", "truth"]

_STRING = r'"(?:[^"\\]|\\.)*"'
_COMMENT = re.compile(rf"{_STRING}|/\*.*?\*/|//[^\n]*|\\\r?\n", re.DOTALL)
_STATEMENT = re.compile(
    rf"""[\s;]*(?: (?P<close>\}}) | (?P<name>\w+) \s* (?:
        : [ \t]* (?P<value>{_STRING}|[^;\n{{}}]*)
        | \( (?P<args>(?:{_STRING}|[^()"])*) \) \s* (?P<open>\{{)?
    ))""",
    re.VERBOSE | re.DOTALL,
)
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


@dataclass
class Group:
    """A group: ``kind (args) { attributes, lists, groups }``."""

    kind: str
    args: list[str]
    values: dict[str, str] = field(default_factory=dict)
    lists: dict[str, list[str]] = field(default_factory=dict)
    groups: list["Group"] = field(default_factory=list)

    def of(self, kind: str) -> list["Group"]:
        """Return the groups of a kind, in order."""
        return [group for group in self.groups if group.kind == kind]


def parse(text: str) -> Group:
    """Return the ``library`` of a file.

    Raises
    ------
    ValueError
        If it is not one, with the line.
    """
    text = _COMMENT.sub(_uncommented, text)
    root = Group("", [])
    inside = [root]
    end = 0
    while match := _STATEMENT.match(text, end):
        end = match.end()
        group = inside[-1]
        if match["close"]:
            inside.pop()
            if len(inside) < 2:
                break
        elif match["value"] is not None:
            group.values[match["name"]] = match["value"].strip().strip('"')
        else:
            args = [_bare(arg) for arg in re.findall(rf"{_STRING}|[^,\s]+", match["args"])]
            if match["open"]:
                inside.append(Group(match["name"], args))
                group.groups.append(inside[-1])
            else:
                group.lists[match["name"]] = args
    if len(inside) != 1 or [group.kind for group in root.groups] != ["library"]:
        raise ValueError(f"line {text.count(chr(10), 0, end) + 1}")
    return root.groups[0]


def numbers(strings: list[str]) -> tuple[float, ...]:
    """Return the numbers in a list attribute."""
    return tuple(float(number) for string in strings for number in _NUMBER.findall(string))


def truth(function: str, pins: list[str]) -> int:
    """Return the truth table of a function: bit i is its value where the pins are i in binary.

    Raises
    ------
    ValueError
        If it is no function of these pins.

    Examples
    --------
    >>> truth("!(A*B)", ["A", "B"]) == truth("A' + B'", ["A", "B"]) == 0b0111
    True
    """
    rows = 1 << len(pins)
    values = {
        pin: sum(1 << row for row in range(rows) if row >> index & 1)
        for index, pin in enumerate(pins)
    } | {"0": 0, "1": (1 << rows) - 1}
    tokens = re.findall(r"\w+|\S", function)[::-1]

    def alternatives() -> int:
        found = product()
        while tokens and tokens[-1] in "+|":
            tokens.pop()
            found |= product()
        return found

    def product() -> int:
        found = parity()
        while tokens and tokens[-1] not in "+|)":
            if tokens[-1] in "*&":
                tokens.pop()
            found &= parity()
        return found

    def parity() -> int:
        found = literal()
        while tokens and tokens[-1] == "^":
            tokens.pop()
            found ^= literal()
        return found

    def literal() -> int:
        token = tokens.pop()
        if token == "!":
            return values["1"] ^ literal()
        if token == "(":
            found = alternatives()
            if tokens.pop() != ")":
                raise ValueError(function)
        else:
            found = values[token]
        while tokens and tokens[-1] == "'":
            tokens.pop()
            found ^= values["1"]
        return found

    try:
        found = alternatives()
    except (IndexError, KeyError) as error:
        raise ValueError(function) from error
    if tokens:
        raise ValueError(function)
    return found


def _uncommented(match: re.Match[str]) -> str:
    """Return a string as it is, and for a comment or a continued line only its line breaks."""
    return match[0] if match[0][0] == '"' else "\n" * match[0].count("\n") or " "


def _bare(arg: str) -> str:
    return arg.strip('"').replace("\\\n", " ")
