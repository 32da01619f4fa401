"""The runtime's header is compiled once for all models, in place of a header of each."""

import subprocess
from pathlib import Path

import pytest

from tpulite_verilated.objcache import main

LEVELS = {"fast": "-O1", "slow": "-O0"}


@pytest.fixture
def compiled(tmp_path, monkeypatch):
    """Return what builds a model as Verilator's makefile does, and yields its objects."""
    runtime, objects = tmp_path / "include", tmp_path / "objects"
    runtime.mkdir()
    objects.mkdir()
    (runtime / "verilated.h").write_text("#pragma once\nusing Word = unsigned;\n")
    monkeypatch.setenv("VERILATOR_ROOT", str(tmp_path))
    monkeypatch.setenv("TPULITE_OBJCACHE", str(objects))
    monkeypatch.setenv("TPULITE_HEADER", "verilated.h")

    def build(name: str) -> list[Path]:
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.chdir(folder)
        Path(f"{name}.h").write_text("inline Word next(Word x) { return x + 1; }\n")
        Path(f"{name}__pch.h").write_text(f'#include "verilated.h"\n#include "{name}.h"\n')
        for level, flag in LEVELS.items():
            compiler = ["c++", flag, "-I.", "-MMD", f"-I{runtime}"]
            header = f"{name}__pch.h"
            Path(f"{level}.cpp").write_text(f"Word {level}(Word x) {{ return next(x); }}\n")
            kept = [*compiler, "-x", "c++-header", header, "-o", f"{header}.{level}.gch"]
            source = [*compiler, "-include", f"{header}.{level}", "-c", f"{level}.cpp"]
            assert main(kept) == main(source) == 0
        return [folder / f"{level}.o" for level in LEVELS]

    return build


def test_models_share_the_header_of_the_runtime(compiled, tmp_path):
    first, second = compiled("Vfirst"), compiled("Vsecond")
    for path in (*first, *second):
        assert path.stem in subprocess.check_output(["nm", "-C", path], text=True)
    assert len(list(tmp_path.glob("objects/*/verilated.h.gch"))) == len(LEVELS)
    own = list(tmp_path.glob("V*/*.gch"))
    assert len(own) == 4 and not any(path.stat().st_size for path in own)
