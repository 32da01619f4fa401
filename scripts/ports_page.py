"""Write docs/reference/ports.md: the ports of each hardware component; ``--check`` writes nothing.

A port is declared once, in the dictionary of its signature, below a comment that says what it
means. A comment counts for all ports up to the next one.
"""

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from gen_docs import markdown
from generated import write_or_compare
from markdown_table import table

ROOT = Path(__file__).resolve().parents[1]
NAME = "docs/reference/ports.md"
_FOLDER = "rtl/tpulite_rtl"
_KINDS = ("wiring.Component", "wiring.Signature")
_HEADER = """# Ports of the components

Generated from `rtl/tpulite_rtl` by scripts/ports_page.py; run `make docs` after a change there.

`In` and `Out` are as seen by the component. Shapes are Python, as the source has them: `config` is
the machine, and `{name}` stands for all names that a port has there.
"""

Row = tuple[str, str, str]


def components(path: Path) -> Iterator[tuple[str, str, list[Row]]]:
    """Yield name, first sentence, and rows of ports of each component or signature of a file."""
    text = path.read_text()
    body = ast.parse(text).body
    constants = {
        ast.unparse(node.target): node.value for node in body if isinstance(node, ast.AnnAssign)
    }
    for node in body:
        if isinstance(node, ast.ClassDef) and any(
            ast.unparse(base) in _KINDS for base in node.bases
        ):
            ports = _Ports(text, constants).of(node)
            yield node.name, (ast.get_docstring(node) or "").split("\n\n")[0], ports


class _Ports:
    """Finds the ports in the source of a file."""

    def __init__(self, text: str, constants: dict[str, ast.expr | None]) -> None:
        self._lines = text.split("\n")
        self._names = dict(constants)

    def of(self, component: ast.ClassDef) -> list[Row]:
        """Return the rows of a component."""
        nodes = list(ast.walk(component))
        for node in nodes:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                self._names[node.targets[0].id] = node.value
        (signature,) = (
            self._named(node.args[0])
            for node in nodes
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "super().__init__"
        )
        rows, meaning = [], ""
        for name, shape, line in self._members(signature):
            meaning = self._comment(line) or meaning
            assert meaning, f"port {name} of {component.name} has no comment"
            rows.append((f"`{name}`", f"`{ast.unparse(shape)}`", meaning))
        return rows

    def _named(self, node: ast.expr) -> ast.expr:
        """Return what a name stands for."""
        found = self._names.get(node.id) if isinstance(node, ast.Name) else None
        return found or node

    def _members(self, node: ast.expr) -> Iterator[tuple[str, ast.expr, int]]:
        """Yield names, shapes and lines of the members of a dictionary."""
        if isinstance(node, ast.IfExp):
            yield from self._members(self._named(node.body))
        elif isinstance(node, ast.Call):  # the channels of AXI, with a prefix
            yield f"{ast.literal_eval(node.args[0])}_*", node, node.lineno
        elif isinstance(node, ast.DictComp):
            name = re.sub(r"\{(\w+)[^}]*\}", r"{\1}", ast.unparse(node.key)[2:-1])
            yield name, node.value, node.lineno
        else:
            assert isinstance(node, ast.Dict), ast.unparse(node)
            for key, value in zip(node.keys, node.values, strict=True):
                if key is None:
                    yield from self._members(self._named(value))
                else:
                    yield ast.literal_eval(key), self._named(value), key.lineno

    def _comment(self, line: int) -> str:
        """Return the comment above a line, which counts from 1."""
        found: list[str] = []
        while (text := self._lines[line - 2 - len(found)].strip()).startswith("# "):
            found.insert(0, text[2:])
        return markdown(" ".join(found))


def ports_page() -> str:
    """Return docs/reference/ports.md."""
    lines = [_HEADER]
    for path in sorted((ROOT / _FOLDER).rglob("*.py")):
        for name, sentence, rows in components(path):
            where = path.relative_to(ROOT / _FOLDER)
            lines += [f"## {name}", "", f"`{where}`: {markdown(' '.join(sentence.split()))}", ""]
            lines += table("port|direction and shape|meaning", rows)
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    """Write or compare the page; 1 if it is stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if stale")
    parser.add_argument("--root", type=Path, default=ROOT, help="root of the tree to write to")
    options = parser.parse_args()
    files = {NAME: ports_page()}
    return write_or_compare(options.root, files, check=options.check, source="what the RTL says")


if __name__ == "__main__":
    sys.exit(main())
