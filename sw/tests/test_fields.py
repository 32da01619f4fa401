"""A field is documented where it is declared, a parameter if its type does not say what it is."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("sw", "rtl", "tb", "formal")


def listed() -> list[str]:
    """Return the modules and classes on the pages of the reference."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "docs/reference").glob("*.md")]
    return [name for text in texts for name in re.findall(r"^::: (\S+)$", text, re.MULTILINE)]


def twice(source: str) -> Iterator[str]:
    """Yield the classes of fields whose docstring lists them again."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ClassDef):
            continue
        made = " ".join(map(ast.unparse, [*node.decorator_list, *node.bases]))
        if re.search("dataclass|NamedTuple", made) and "Parameters\n" in (
            ast.get_docstring(node) or ""
        ):
            yield node.name


@pytest.mark.parametrize("package", PACKAGES)
def test_a_field_is_documented_where_it_is_declared(package):
    top, names, found = ROOT / package, tuple(f"{name}." for name in listed()), []
    for path in top.rglob("*.py"):
        module = ".".join(path.relative_to(top).with_suffix("").parts)
        for name in twice(path.read_text(encoding="utf-8")):
            if not f"{module}.{name}.".startswith(names):
                found.append(f"{path.relative_to(ROOT)}: {name}")
    assert found == [], "put `#: text` beside or above each field instead of a list of Parameters"


def test_a_list_of_fields_is_found():
    text = '''
@dataclass(frozen=True)
class Tile:
    """A tile.

    Parameters
    ----------
    rows : int
        Its rows.
    """

    rows: int
'''
    assert list(twice(text)) == ["Tile"]
    assert list(twice(text.replace("@dataclass(frozen=True)\n", ""))) == []


RESTATED = re.compile(
    r"^ +\w+ : .*\n +The (machine|network|file|program|node|operator|numerics|library|graph)\.$",
    re.MULTILINE,
)
#: Parameters whose description is the name of their type; only ever fewer.
CEILINGS = {"compiler": 70, "frontend": 7, "language": 1, "quant": 12}
ON_PAGES = 6  #: Those on pages of the reference, where lists of parameters are whole.


def test_a_parameter_is_not_described_by_its_type():
    found = Counter()
    for path in (ROOT / "sw/tpulite").rglob("*.py"):
        package = path.relative_to(ROOT / "sw/tpulite").parts[0]
        package = package if package in CEILINGS else "others"
        found[package] += len(RESTATED.findall(path.read_text(encoding="utf-8")))
    assert found <= Counter(CEILINGS | {"others": ON_PAGES}), "leave out what the type says"
