import json
import runpy
from pathlib import Path

import pytest

LINT = runpy.run_path(str(Path(__file__).resolve().parents[2] / "scripts/phrases.py"))
PHRASES, UNFINISHED = LINT["read_list"]()


def lines(path, text):
    return [line for line, _, _ in LINT["findings"](path, text, PHRASES)]


@pytest.mark.parametrize("phrase", PHRASES, ids=lambda phrase: phrase.example)
def test_the_example_is_refused_and_its_replacement_is_not(phrase):
    path = {"docs": "docs/a.md", "printed": "sw/tpulite/a.py"}[phrase.where[0]]
    quoted = (lambda text: text) if path.endswith(".md") else repr
    (found,) = LINT["findings"](path, quoted(phrase.example), PHRASES)
    assert found[2] == phrase.write
    assert not lines(path, quoted(f"It {phrase.write}"))


def test_a_phrase_is_found_across_the_end_of_a_line():
    assert lines("docs/a.md", "One.\n\nThe library,\nwhose\nbits") == [4]


def test_code_and_addresses_in_pages_are_not_read():
    page = "Run\n\n    whose bits\n\n    whose bits\n\nand `whose bits` ([why](whose-bits.md)).\n"
    assert not lines("docs/a.md", page + "\n```\nwhose bits\n```\n")
    assert lines("docs/a.md", page + "whose bits\n") == [8]


def test_messages_and_help_are_read_and_docstrings_are_not():
    source = '''
@click.command()
def run():
    """Whose bits."""


def compute():
    """Whose bits."""
    raise ValueError(f"whose {name} are the host's")


table["whose bits"] = "whose " "bits"
'''
    assert lines("sw/tpulite/a.py", source) == [4, 9, 12]
    assert not lines("sw/tests/test_a.py", source)


def test_of_firmware_comments_and_strings_are_read():
    source = 'int strip; /* of\n a strip */ int slab; // slab\nconst char *s = "strip";\n'
    assert lines("sw/tpulite/firmware/a.c", source) == [2, 2, 3]


def test_text_of_notebooks_is_read_and_code_is_not():
    cells = [
        {"cell_type": kind, "source": ["# whose\n", "bits\n"]} for kind in ("markdown", "code")
    ]
    assert lines("examples/a.ipynb", json.dumps({"cells": cells})) == [1]


def test_unfinished_files_exist():
    root = Path(__file__).resolve().parents[2]
    assert all((root / path).is_file() for path in UNFINISHED)
