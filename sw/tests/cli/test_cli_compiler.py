import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tpulite.compiler.options import Options
from tpulite.compiler.passes import PASSES
from tpulite.compiler.pipeline import compile_layers
from tpulite.golden.timing import predict_cycles
from tpulite.models import CNN_DIGITS, MLP_DIGITS
from tpulite.runtime.model import Model
from tpulite.runtime.model_file import load_model_file

pytest_plugins = ("tpulite_testing.command_line",)

MLP = MLP_DIGITS


@pytest.fixture
def compiled(monkeypatch, own_programs):
    """Note with which options the compiler is called; it makes quick work of all of them."""
    calls = []

    def note(layers, config, options, **others):
        calls.append((config, options))
        return compile_layers(layers, config, replace(options, effort=0), **others)

    monkeypatch.setattr("tpulite.runtime.model_compile.compile_layers", note)
    return calls


@pytest.mark.parametrize("command", ["compile", "run"])
@pytest.mark.parametrize(
    ("words", "options"),
    [
        ((), Options()),
        (("--optimize", "memory"), Options(optimize="memory")),
        (
            (
                "--without",
                "grouping",
            ),
            Options(grouping=False),
        ),
        (("--without", "rolling", "--halo-guard"), Options(rolling=False, halo_guard=True)),
        (("--moves", "3", "--moves-seed", "9"), Options(moves=3, seed=9)),
        (("--grouping", "document"), Options(groups="document", allocator="longest")),
        (("--effort", "0", "--order", "document"), Options(effort=0, order="document")),
        (("--without", "prefetch,block-start"), Options(prefetch=False, block_start=False)),
        (
            ("--without", "order-layers,choose-plans"),
            Options(without=("choose-plans", "order-layers")),
        ),
        (
            ("--without", "interleaved", "--without", "dense-mode"),
            Options(interleaved=False, dense_mode=False),
        ),
    ],
)
def test_options_reach_the_compiler(tpulite, compiled, command, words, options):
    assert tpulite(command, CNN_DIGITS, *words)[::2] == (0, "")
    assert [each for _, each in compiled] == [options]


def test_other_sizes_of_a_configuration(tpulite, compiled):
    words = ("--config", "16x16,ub_rows=4096,dma_bursts=2")
    assert tpulite("run", CNN_DIGITS, *words)[::2] == (0, "")
    ((config, _),) = compiled
    assert (config.array_size, config.ub_rows, config.dma_bursts) == (16, 4096, 2)


def test_programs_are_compiled_once(tpulite, compiled, tmp_path):
    assert tpulite("compile", CNN_DIGITS)[0] == 0
    first = (tmp_path / "cnn_digits.tpulite").read_bytes()
    assert tpulite("compile", CNN_DIGITS, "-o", "again.tpulite")[0] == 0
    assert tpulite("run", CNN_DIGITS)[0] == 0
    assert len(compiled) == 1
    assert (tmp_path / "again.tpulite").read_bytes() == first
    (entry,) = (tmp_path / "cache" / "programs").iterdir()
    home, line = tpulite("cache")[1].splitlines()
    assert home == f"{tmp_path / 'cache'}:"
    assert line.split()[:4] == ["programs", "1", "file,", f"{entry.stat().st_size:,}"]

    assert tpulite("compile", CNN_DIGITS, "--no-cache")[0] == 0
    assert len(compiled) == 2
    assert (tmp_path / "cnn_digits.tpulite").read_bytes() == first
    assert tpulite("cache", "zoo", "--clear")[1].endswith(": empty\n") and entry.exists()
    assert "removed" in tpulite("cache", "--clear")[1] and not entry.exists()
    assert tpulite("compile", CNN_DIGITS)[0] == 0
    assert len(compiled) == 3


def test_a_compiled_file_keeps_its_options(tpulite):
    assert tpulite("compile", CNN_DIGITS, "--without", "grouping", "--optimize", "memory")[0] == 0
    options = load_model_file(Path("cnn_digits.tpulite")).options
    assert options == Options(grouping=False, optimize="memory")
    assert tpulite("run", "cnn_digits.tpulite")[0] == 0


def test_the_report_has_both_ways(tpulite, tmp_path):
    code, out, err = tpulite("compile", CNN_DIGITS, "--report", "--json", "out.json")
    assert (code, err) == (0, "")
    record = json.loads((tmp_path / "out.json").read_text())
    model = Model.load(CNN_DIGITS).compile()
    (program,) = model.programs
    cycles = predict_cycles(program.commands, program.config)
    assert record["with grouping"]["cycles"] == cycles
    (plain,) = model.with_options(Options(grouping=False)).programs
    assert record["without grouping"]["cycles"] == predict_cycles(plain.commands, plain.config)
    assert f"{cycles:,}" in out and "with grouping" in out and "without grouping" in out

    words = ("compile", CNN_DIGITS, "--report", "--without", "grouping", "--json", "out.json")
    assert tpulite(*words)[0] == 0
    assert list(json.loads((tmp_path / "out.json").read_text())) == ["without grouping"]

    words = ("compile", CNN_DIGITS, "--report", "--grouping", "document", "--json", "out.json")
    assert tpulite(*words)[0] == 0
    beside = json.loads((tmp_path / "out.json").read_text())
    assert list(beside) == ["document", "with grouping", "without grouping"]
    assert beside["with grouping"]["cycles"] == cycles


def test_progress_is_for_terminals(tpulite, monkeypatch):
    words = ("compile", CNN_DIGITS, "--no-cache", "--effort", 0)
    assert tpulite(*words)[2] == ""
    monkeypatch.setenv("FORCE_COLOR", "1")  # what rich takes for a terminal
    code, out, err = tpulite(*words)
    assert code == 0
    assert "compile: check" in err and "compile: check" not in out


def test_what_a_program_needs_is_always_told(tpulite):
    for words in (("compile", CNN_DIGITS), ("run", CNN_DIGITS), ("info", "cnn_digits.tpulite")):
        code, out, _ = tpulite(*words)
        assert code == 0
        assert "bytes read" in out and "of 16,384 rows used" in out


def test_programs_are_validated(tpulite, tmp_path, monkeypatch):
    words = ("compile", MLP, "--config", "4x4", "-o", "net.tpulite", "--validate", "--effort", 0)
    code, out, err = tpulite(*words)
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "validated: 1 program, for all inputs"
    monkeypatch.setattr("tpulite.compiler.translation.validate_translation", lambda *_: ["No."])
    code, _, err = tpulite(*words)
    assert code == 2 and "does not compute its layers" in err
    assert tpulite(*words, "--resident")[0] == 2


def test_stages_are_dumped(tpulite, tmp_path):
    words = ("compile", CNN_DIGITS, "--effort", 0, "--dump", "mark-views,assemble")
    code, out, _ = tpulite(*words)
    assert code == 0
    layers, commands = out.split("--- 0.assemble\n")
    assert layers.startswith("--- 0.mark-views\nnetwork cnn_digits/0: 7 layers, 379,480 MACs\n")
    program = commands.split("\n\n")[0].splitlines()
    assert program[-1].split() == [str(len(program) - 1), "END"]

    assert tpulite(*words, "--dump-dir", "texts")[0] == 0
    again = {path.name: path.read_text() for path in (tmp_path / "texts").iterdir()}
    assert set(again) == {"0.mark-views.txt", "0.assemble.txt"}
    layers, commands = again["0.mark-views.txt"], again["0.assemble.txt"]
    assert f"--- 0.mark-views\n{layers}\n--- 0.assemble\n{commands}\n" in out


def test_equal_input_gives_equal_bytes_in_every_interpreter(tmp_path):
    """Compile with other hashes of strings, which order sets."""
    results = []
    for seed in ("1", "2"):
        code = "from tpulite.cli import main; main()"
        words = ("compile", CNN_DIGITS, "-o", "net.tpulite", "--dump", "all", "--effort", 900)
        result = subprocess.run(
            [sys.executable, "-c", code, *map(str, words), "--no-cache"],
            cwd=tmp_path,
            env=os.environ | {"PYTHONHASHSEED": seed, "TPULITE_CACHE": str(tmp_path / "cache")},
            capture_output=True,
            check=True,
        )
        results.append((result.stdout, (tmp_path / "net.tpulite").read_bytes()))
    assert results[0] == results[1]


def test_all_stages_can_be_dumped(tpulite, tmp_path):
    assert (
        tpulite("compile", CNN_DIGITS, "--effort", 0, "--dump", "all", "--dump-dir", "texts")[0]
        == 0
    )
    names = {path.name for path in (tmp_path / "texts").iterdir()}
    assert names == {f"0.{each.name}.txt" for each in PASSES}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            (CNN_DIGITS, "--halo-guard", "--without", "grouping"),
            "--halo-guard cannot be used with",
        ),
        (
            (CNN_DIGITS, "--without", "order-layer"),
            "--without order-layer: no such pass to leave out (did you mean order-layers?)",
        ),
        ((CNN_DIGITS, "--without", "tile"), "--without tile: no such pass to leave out"),
        (
            (CNN_DIGITS, "--moves", 3, "--without", "grouping"),
            "--moves cannot be used with --w",
        ),
        (
            (CNN_DIGITS, "--grouping", "cost", "--without", "grouping"),
            "--grouping cannot be used with",
        ),
        ((CNN_DIGITS, "--grouping", "document", "--moves", 3), "--moves cannot be used with --gro"),
        (
            (CNN_DIGITS, "--grouping", "document", "--allocator", "online"),
            "--allocator online cannot be used with --grouping document",
        ),
        ((CNN_DIGITS, "--moves", 0, "--moves-seed", 1), "--moves-seed cannot be used with --moves"),
        ((CNN_DIGITS, "--moves-seed", -1), "--moves-seed: -1 is not in the"),
        ((CNN_DIGITS, "--moves", -1), "moves must be at least 0, not -1"),
        ((CNN_DIGITS, "--batch", 0), "batch must be at least 1, not 0"),
        ((CNN_DIGITS, "--batch", "x"), "'x' is not a valid integer"),
        ((CNN_DIGITS, "--optimize", "size"), "--optimize: size is not one of latency, memory"),
        ((CNN_DIGITS, "--allocator", "best"), "--allocator: best is not one of online"),
        (
            (CNN_DIGITS, "--dump", "group,tiles"),
            "--dump tiles: no such pass",
        ),
        ((CNN_DIGITS, "--dump", ""), "--dump : no such pass; choose from tabulate-chains"),
        ((CNN_DIGITS, "--dump-dir", "texts"), "--dump-dir needs --dump"),
        ((CNN_DIGITS, "--dump", "tile", "--dump-dir", "none/texts"), "none: No such file or dir"),
        ((CNN_DIGITS, "--dump", "tile", "--dump-dir", "x.npy"), "x.npy: Not a directory"),
        ((CNN_DIGITS, "--config", "16x16,ub_rows"), "'ub_rows' must be FIELD=VALUE; fields are ub"),
        ((CNN_DIGITS, "--config", "16x16,rows=4"), "rows: no such field of a configuration"),
        ((CNN_DIGITS, "--config", "16x16,ub_rows=4k"), "ub_rows must be an integer, not '4k'"),
        ((CNN_DIGITS, "--config", "16x16,ub_rows=5000"), "ub_rows must be a power of two from 64"),
        ((CNN_DIGITS, "--config", "8x8,ub_banks=8,ub_banks=4"), "ub_banks of configuration '8x8,u"),
        (("net.tpulite",), "net.tpulite is the network itself"),
        (
            ("net.tpulite", "-o", "out", "--without", "rolling"),
            "--without cannot be used: net",
        ),
        (("net.tpulite", "-o", "out", "--dump", "tile"), "net.tpulite is compiled: --dump needs"),
    ],
)
def test_contradictions_are_one_line_and_write_nothing(tpulite, tmp_path, words, message):
    np.save("x.npy", np.zeros(3))
    if "net.tpulite" in words:
        tpulite("compile", CNN_DIGITS, "-o", "net.tpulite")
    before = {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}
    code, out, err = tpulite("compile", *words)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1 and message in err, err
    assert {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")} == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("net.tpulite", "--without", "grouping"),
            "--without cannot be used: net",
        ),
        (("net.tpulite", "--batch", 2), "--batch cannot be used: net.tpulite is compiled"),
        (("mlp.tpl", "--optimize", "memory"), "--optimize cannot be used: mlp.tpl is compiled"),
        ((CNN_DIGITS, "--dump", "tile"), "--dump: no such option"),
    ],
)
def test_what_is_compiled_takes_no_options(tpulite, words, message):
    tpulite("compile", CNN_DIGITS, "-o", "net.tpulite")
    Model.load(MLP, options=Options(effort=0)).programs[0].save("mlp.tpl")
    code, out, err = tpulite("run", *words)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1 and message in err, err


def test_a_network_that_does_not_fit_is_one_line(tpulite, own_programs, tmp_path, monkeypatch):
    # As if no cut of a layer were fine enough: really so few rows do.
    monkeypatch.setattr("tpulite.compiler.cuts.CutSearch._fits", lambda search, cut: False)
    words = ("--config", "16x16,ub_rows=64")
    code, out, err = tpulite("compile", CNN_DIGITS, *words)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1, err
    assert "does not fit the unified buffer of 64 rows (1024 bytes)" in err
    needs = (
        r"layer '\w+': even its smallest tile needs \d+ rows \(\d+ bytes\) at the peak: \d+ for '"
    )
    assert re.search(needs, err), err
    assert not list(tmp_path.iterdir())


def test_faults_of_the_compiler_are_no_tracebacks(tpulite, own_programs, tmp_path, monkeypatch):
    monkeypatch.setattr("tpulite.compiler.pipeline.check", lambda program: ["row 7 is a race"])
    code, out, err = tpulite("compile", CNN_DIGITS)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert "internal error (pipeline.py, line " in err and "row 7 is a race" in err
    assert not list(tmp_path.iterdir())
