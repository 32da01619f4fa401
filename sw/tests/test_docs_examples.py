import doctest
import re
import runpy
from pathlib import Path

import click
import pytest

from tpulite.cli.main import commands

pytestmark = pytest.mark.pages
ROOT = Path(__file__).resolve().parents[2]
CODE = re.compile(r"`([^`\n]+(?:\n[^`\n]+)?)`|^(?:    |\$ )(.*)$", re.MULTILINE)
CALL = re.compile(r"(?<![\w/.-])tpulite ([a-z]+)((?: [^\s`|#]+)*)")


@pytest.mark.parametrize("name", ["numerics.md", "exactness.md"])
def test_examples_are_true(name):
    failed, tried = doctest.testfile(str(ROOT / "docs" / name), module_relative=False)
    assert tried > 0
    assert failed == 0


def test_python_of_the_readme_runs(capsys):
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    exec(compile(block, "README.md", "exec"), {})
    assert re.fullmatch(r"\[[\d\s]+\] 1806\n", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("name", "said"),
    [("first_steps.py", "97.77% of 448 digits are right"), ("own_device.py", "4 runs, ")],
)
def test_examples_run(capsys, name, said):
    runpy.run_path(str(ROOT / "examples" / name))
    assert f"\n{said}" in f"\n{capsys.readouterr().out}"


def test_python_of_the_page_of_networks_runs():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/networks.md").read_text(), re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, "networks.md", "exec"), {})


def test_files_that_the_readme_names_exist():
    text = (ROOT / "README.md").read_text()
    names = re.findall(r"\]\(([a-z][\w./-]+)\)", text)
    assert names
    assert not [name for name in names if not (ROOT / name).exists()]


def test_pages_hold_the_files_that_they_show():
    """GitHub would show a directive that includes a file as it is; cog writes the text instead."""
    pages = (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
    assert not [page.name for page in pages if re.search(r"8\s*<\s*-", page.read_text())]


def options_of(command):
    """Return the options of a command of click, those of its own commands included."""
    within = command.commands.values() if isinstance(command, click.Group) else ()
    own = {word for each in command.params for word in (*each.opts, *each.secondary_opts)}
    return own.union(["--help"], *map(options_of, within))


def test_commands_have_the_options_that_pages_give_them():
    context = click.Context(commands)
    known = {
        name: options_of(commands.get_command(context, name))
        for name in commands.list_commands(context)
    }
    wrong, given = [], 0
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")):
        for quoted, typed in CODE.findall(page.read_text()):
            for name, rest in CALL.findall((quoted or typed).replace("\n", " ")):
                words = [word.partition("=")[0] for word in rest.split() if word.startswith("--")]
                given += len(words)
                wrong += [
                    (page.name, name, each) for each in words if each not in known.get(name, ())
                ]
    assert given > 300
    assert not wrong
