"""Programs that tests keep: compiled once, and never if the compiler is another one."""

import pytest

from tpulite.arch.config import Config
from tpulite.bench import find_workload
from tpulite.compiler import pipeline
from tpulite.compiler.pipeline import compile_layers, compile_pair
from tpulite.models import MLP_DIGITS
from tpulite.runtime.model import Model
from tpulite_testing import kept
from tpulite_testing.drawn.plain_graphs import GraphBuilder
from tpulite_testing.kept import compiling_anew, kept_pair, kept_program
from tpulite_testing.quick_options import quick_options


@pytest.fixture
def compiled(monkeypatch, tmp_path) -> list[str]:
    """What was compiled, with a folder of its own for what is kept."""
    made = []

    def note(layers, config, options, **others):
        made.append(layers.name)
        return compile_layers(layers, config, options, **others)

    monkeypatch.setattr(pipeline, "compile_layers", note)
    monkeypatch.setattr(kept, "_folders", [tmp_path / "kept"])
    return made


def network(channels: int = 16):
    builder = GraphBuilder((4, 4, 8))
    return builder.graph(builder.conv("x", channels, name="y"))


def test_a_network_is_compiled_once_and_then_the_same(compiled):
    first, second = (kept_program(network(), Config(), quick_options()) for _ in range(2))
    assert first == second == compile_layers(network(), Config(), quick_options())
    assert len(compiled) == 1


def test_anything_else_is_compiled(compiled):
    kept_program(network(), Config(), quick_options())
    kept_program(network(32), Config(), quick_options())
    kept_program(network(), Config(ub_rows=1024), quick_options())
    kept_program(network(), Config(), quick_options(batch=2))
    assert len(compiled) == 4


def test_another_compiler_neither_reads_nor_keeps(compiled, monkeypatch, tmp_path):
    with compiling_anew():
        kept_program(network(), Config(), quick_options())
    monkeypatch.setenv("MUTANT_UNDER_TEST", "a mutant of mutmut")
    kept_program(network(), Config(), quick_options())
    assert len(compiled) == 2 and not (tmp_path / "kept").exists()


def test_programs_of_other_sources_are_deleted(compiled, tmp_path):
    older = tmp_path / "kept" / "other sources"
    older.mkdir(parents=True)
    kept_program(network(), Config(), quick_options())
    assert not older.exists()


def test_models_and_workloads_keep_their_programs(compiled):
    model = Model.load(MLP_DIGITS, options=quick_options())
    assert model.compile().programs == model.compile().programs
    assert compiled == ["mlp_digits/0"]
    workload = find_workload("gemm_4x4x4")(Config())
    assert workload.compile() == workload.compile()
    assert len(compiled) == 2
    with compiling_anew():
        model.compile()
    assert len(compiled) == 3


def test_who_watches_the_compiler_sees_it_compile(compiled):
    model, said = Model.load(MLP_DIGITS, options=quick_options()), []
    for _ in range(2):
        model.compile(progress=said.append)
    assert len(compiled) == 2 and said


def test_both_programs_of_a_pair_are_kept(compiled, monkeypatch):
    options = quick_options(resident=True)
    first, second = (kept_pair(network(), Config(), options) for _ in range(2))
    assert first == second == compile_pair(network(), Config(), options)
    assert first[0] != first[1]
    monkeypatch.setattr(pipeline, "compile_pair", lambda *_: pytest.fail("compiled again"))
    assert kept_pair(network(), Config(), options) == first
