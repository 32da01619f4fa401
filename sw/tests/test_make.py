"""`T=` of the Makefile: a path where it is one, else a part of names."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORKERS = "-n 2 --dist worksteal"
MARKED = [path for path in ROOT.glob("sw/**/test_*.py") if "mark" + ".pages" in path.read_text()]
PAGES = " ".join(sorted(path.relative_to(ROOT).as_posix() for path in MARKED))


@pytest.mark.parametrize(
    ("target", "chosen", "expected"),
    [
        ("test-sw", "", f'{WORKERS} -m "not pages" sw'),
        ("test-sw", "sw/tests/arch", f'{WORKERS} -m "not pages" "sw/tests/arch"'),
        ("test-sw", "sw/tests/arch/test_isa.py", '-m "not pages" "sw/tests/arch/test_isa.py"'),
        ("test-sw", "sw/tests/x.py::test_a[b c]", '-m "not pages" "sw/tests/x.py::test_a[b c]"'),
        ("test-sw", "isa", f'{WORKERS} -k "isa" -m "not pages" sw'),
        ("test-sw", "sw and not isa", f'{WORKERS} -k "sw and not isa" -m "not pages" sw'),
        ("test", "", f'{WORKERS} -m "not pages"'),
        ("test", "tb/unit/test_fifo.py", '-m "not pages" "tb/unit/test_fifo.py"'),
        ("test-unit", "fifo", f'{WORKERS} -k "fifo" tb/unit'),
        ("test-unit", "tb/unit/test_fifo.py", '"tb/unit/test_fifo.py"'),
        ("test-pages", "", f"{WORKERS} -m pages {PAGES}"),
        ("test-pages", "sw/tests/test_notebook.py", '-m pages "sw/tests/test_notebook.py"'),
    ],
)
def test_what_is_chosen_is_a_path_or_a_part_of_names(target, chosen, expected):
    words = ["make", "-n", target, f"T={chosen}"]
    result = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    (line,) = [each for each in result.stdout.splitlines() if "bin/pytest" in each]
    options = line.replace(f"--junitxml=build/{target}.xml", "").split()[1:]
    assert " ".join(options) == expected
