import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("cogapp", reason="cog is missing (pip install cogapp)")
ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    str(path.relative_to(ROOT))
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if "[[[cog " in path.read_text()
]


def run(*args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "scripts/sources.py", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.pages  # each example is a process
@pytest.mark.parametrize("name", PAGES)
def test_pages_show_what_their_examples_print(name):
    result = run(ROOT / name)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "page.md"
    path.write_text('<!-- [[[cog show("echo 4 > n; cat n") ]]] -->\n<!-- [[[end]]] -->\n')
    return path


def test_a_page_is_written_once_and_then_true(page):
    assert run("--write", page).returncode == 0
    assert "\n```console\n$ echo 4 > n; cat n\n4\n```\n" in page.read_text()
    assert run(page).returncode == 0


def test_a_stale_page_shows_the_difference(page):
    run("--write", page)
    page.write_text(page.read_text().replace("\n4\n", "\n5\n"))
    result = run(page)
    assert result.returncode != 0
    assert "-5\n+4\n" in result.stdout


def test_an_example_that_fails_fails_its_page(page):
    page.write_text(page.read_text().replace("cat n", "false"))
    result = run("--write", page)
    assert result.returncode != 0
    assert "ended with 1" in result.stderr


def test_pictures_are_compared(page):
    text = """<!-- [[[cog show("echo a > a.svg"); picture("a.svg", "An a") ]]] -->
<!-- [[[end]]] -->
"""
    page.write_text(text)
    assert run("--write", page).returncode == 0
    assert "![An a](a.svg)" in page.read_text()
    assert run(page).returncode == 0
    page.with_name("a.svg").write_text("b")
    assert run(page).returncode != 0
