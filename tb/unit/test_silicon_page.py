"""The tables of docs/silicon.md."""

import json
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/silicon_page.py"
MARKS = "before\n<!-- tables: scripts/silicon_page.py -->\nold\n<!-- end -->\nafter\n"

BLOCK = {"name": "mxu.intake", "count": 1, "fo4": 30.5, "levels": 20, "start": "a", "end": "b"}
TIMING = {
    "chip": {"fo4": 30.5, "gates": 4000, "gates_array": 1000},
    "blocks": [BLOCK | {"gates": 4000}],
    "paths": [{"fo4": 30.5, "levels": 20, "start": "a", "end": "b", "through": ["mxu.intake 20"]}],
}
SIZE = {"lut": 1200, "ff": 300, "dsp": 1, "bram": 2}
SYNTH = {"chip": SIZE, "blocks": [{"name": "mxu.intake", "count": 1, **SIZE}]}


def test_tables_replace_what_is_between_the_marks(tmp_path):
    for kind, content in (("timing", TIMING), ("synth", SYNTH)):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / "4x4.json").write_text(json.dumps(content))
    page = tmp_path / "page.md"
    page.write_text(MARKS)
    environment = os.environ | {"TPULITE_BUILD": str(tmp_path)}
    for _ in range(2):
        command = [sys.executable, SCRIPT, "4x4", "--page", page]
        subprocess.run(command, env=environment, check=True)
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("<!-- end -->\nafter\n")
    assert "old" not in text and text.count("## 4x4") == 1
    assert "30.5 FO4; 4,000 gates without memory macros, 25.0% of" in text
    assert "| 30.5 | 20 | `a` | mxu.intake 20 | `b` |" in text
    assert "| `mxu.intake` | 1 | 30.5 | 20 | 4,000 | 1,200 | 300 | 1 | 2 |" in text
    assert "| `all` |  |  |  | 4,000 | 1,200 | 300 | 1 | 2 |" in text
