"""What sets one family of layers apart from others is a fact of the layer, said once."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tpulite.graph import layers as families
from tpulite.graph.layers import Layer

PACKAGE = Path(families.__file__).parents[1]

REWRITES = "compiler/rewrite/"

MOST = {"outside rewrites": 10, "in rewrites": 9}
"""Sites that tell convolutions from other layers."""

MOST_FILES = 42
"""Files that name a family, of the one that most name."""

ADVICE = (
    "do not ask for the type of a layer: give Layer in sw/tpulite/graph/layer_base.py a fact with "
    "a default, and another value where the family is defined (docs/recipes.md, A kind of layer)"
)


def told_apart(tree: ast.AST) -> Iterator[str]:
    """Yield the names of classes by which code tells objects apart."""
    for node in ast.walk(tree):
        asked: list[ast.AST | None] = []
        match node:
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, kind]):
                asked = [kind]
            case ast.MatchClass(cls=kind):
                asked = [kind]
            case ast.Dict(keys=keys):
                asked = [key for key in keys if isinstance(key, ast.Name)]
            case ast.Compare(ops=[ast.Is() | ast.IsNot() | ast.Eq() | ast.NotEq()]):
                asked = [side for side in node.comparators if isinstance(side, ast.Name)]
            case ast.Assign(value=ast.BinOp(op=ast.BitOr()) | ast.Tuple() as value):
                parts = [x for x in ast.walk(value) if isinstance(x, ast.expr)]
                if all(isinstance(x, ast.Name | ast.BinOp | ast.Tuple) for x in parts):
                    asked = [value]
        for kind in asked:
            yield from {x.id for x in ast.walk(kind) if isinstance(x, ast.Name)} if kind else ()


def trees() -> Iterator[tuple[str, ast.Module]]:
    """Yield the modules of the package by their paths in it."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        yield name, ast.parse(path.read_text(encoding="utf-8"))


def names_of_families() -> set[str]:
    """Return the names of all classes of layers."""
    every = (getattr(families, name) for name in families.__all__)
    return {x.__name__ for x in every if isinstance(x, type) and issubclass(x, Layer)} - {"Layer"}


def test_few_sites_tell_convolutions_apart():
    found: dict[str, dict[str, int]] = {where: {} for where in MOST}
    for name, tree in trees():
        if count := [*told_apart(tree)].count("Conv"):
            where = "in rewrites" if name.startswith(REWRITES) else "outside rewrites"
            found[where][name] = count
    for where, most in MOST.items():
        assert sum(found[where].values()) <= most, f"{where}: {found[where]}; {ADVICE}"


def test_few_files_name_a_family():
    named: Counter[str] = Counter()
    for _, tree in trees():
        named.update({x.id for x in ast.walk(tree) if isinstance(x, ast.Name)})
    files = {name: named[name] for name in names_of_families()}
    assert max(files.values()) <= MOST_FILES, f"{files}; {ADVICE}"


@pytest.mark.parametrize(
    "source",
    [
        "isinstance(x, Conv)",
        "not isinstance(layer.first, Depthwise | Conv)",
        "isinstance(x, (Pool, Conv))",
        "match x:\n    case Pool() | Conv(weight=w): pass",
        "table = {Conv: f, **others}",
        "type(x) is Conv",
        "KINDS = Conv | Pool",
        "KINDS = (Pool, Conv)",
    ],
)
def test_a_site_is_found_in_every_form(source):
    assert [*told_apart(ast.parse(source))].count("Conv") == 1


@pytest.mark.parametrize(
    "source",
    [
        "def f(x: Conv | Pool) -> Conv: return Conv(weight=x.weight)",
        "x = Conv(name='a') | y",
        "x = f(Conv), 2",
        "table = {'Conv': 1}",
    ],
)
def test_what_makes_or_annotates_a_layer_is_no_site(source):
    assert "Conv" not in {*told_apart(ast.parse(source))}
