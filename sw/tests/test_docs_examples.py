import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["numerics.md"])
def test_examples_are_true(name):
    failed, tried = doctest.testfile(str(ROOT / "docs" / name), module_relative=False)
    assert tried > 0
    assert failed == 0


def test_python_of_the_readme_runs(capsys):
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    exec(compile(block, "README.md", "exec"), {})
    assert re.fullmatch(r"\[[\d\s]+\] None\n", capsys.readouterr().out)


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
