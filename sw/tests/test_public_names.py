"""A leading underscore says what a module keeps to itself; a list says it a second time."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "sw/tpulite"


def lists_its_own(source: str) -> bool:
    """Whether a module lists names, all of which it defines."""
    listed, imported = set(), set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imported |= {name.asname or name.name for name in node.names}
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            listed = set(re.findall(r"'(\w+)'", ast.unparse(node.value)))
    return bool(listed) and not listed & imported


def test_a_module_lists_names_only_to_offer_those_of_others():
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs/reference").glob("*.md")]
    on_pages = {name for page in pages for name in re.findall(r"^::: (\S+)$", page, re.MULTILINE)}
    found = []
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(path.relative_to(ROOT / "sw").with_suffix("").parts)
        if path.name == "__init__.py" or name in on_pages:
            continue
        if lists_its_own(path.read_text(encoding="utf-8")):
            found.append(name)
    assert found == [], "leave out __all__, and begin private names with _"


def test_lists_of_own_names_are_told_from_those_of_others():
    assert lists_its_own('__all__ = ["a"]\n\na = 1\n')
    assert not lists_its_own('from b import a\n\n__all__ = ["a", "c"]\n\nc = 1\n')
    assert not lists_its_own('try:\n    import b as a\nexcept b:\n    pass\n__all__ = ["a"]\n')
    assert not lists_its_own("a = 1\n")
