"""Parts of a network are compiled with the effort of one network."""

from dataclasses import replace

import pytest

from tpulite.arch.config import Config
from tpulite.compiler.options import LEAST_EFFORT, Options
from tpulite.compiler.pipeline import compile_layers
from tpulite.compiler.stages import idle_cycles
from tpulite.runtime.compile_cache import ProgramCache
from tpulite.runtime.model_compile import compile_parts
from tpulite_testing.drawn.plain_graphs import GraphBuilder

CONFIG = Config()


def part(pixels, *channels):
    """Return convolutions behind each other."""
    b, y = GraphBuilder((pixels, pixels, 16)), "x"
    for count in channels:
        y = b.conv(y, count, padding=(1, 1, 1, 1))
    return b.graph(y)


def renamed(layers, prefix):
    """Return the same layers with other names."""
    return replace(
        layers,
        layers=tuple(
            replace(
                layer,
                name=prefix + layer.name,
                inputs=tuple(prefix + name for name in layer.inputs),
                output=prefix + layer.output,
            )
            for layer in layers.layers
        ),
        activations={prefix + name: image for name, image in layers.activations.items()},
        inputs=tuple(prefix + name for name in layers.inputs),
        outputs=tuple(prefix + name for name in layers.outputs),
        constants={prefix + name: value for name, value in layers.constants.items()},
    )


@pytest.fixture
def efforts(monkeypatch):
    """Note with which effort the compiler is called."""
    calls = []

    def note(layers, config, options, **others):
        calls.append(options.effort)
        return compile_layers(layers, config, options, **others)

    monkeypatch.setattr("tpulite.runtime.model_compile.compile_layers", note)
    return calls


def test_parts_share_the_effort_by_what_they_can_gain(efforts):
    parts = [part(16, 32, 32), part(2, 16), part(16, 48)]
    options = Options(effort=6000)
    programs = compile_parts(parts, CONFIG, options)
    assert efforts[:3] == [0, 0, 0]
    quick = [compile_layers(each, CONFIG, replace(options, effort=0)) for each in parts]
    idle = [idle_cycles(each.commands, CONFIG) for each in quick]
    shares = [6000 * x * n // (sum(idle) * 4) for x, n in zip(idle, (2, 1, 1), strict=True)]
    assert shares[1] < LEAST_EFFORT < min(shares[0], shares[2])
    assert efforts[3:] == [shares[0], shares[2]]
    for program, layers, share in zip(programs, parts, (shares[0], 0, shares[2]), strict=True):
        same = compile_layers(layers, CONFIG, replace(options, effort=share))
        assert program.commands == same.commands


def test_one_part_has_all_of_it_and_many_have_none(efforts):
    compile_parts([part(8, 32)], CONFIG, Options(effort=600))
    assert efforts == [600]
    efforts.clear()
    compile_parts([part(8, 32 + i) for i in range(12)], CONFIG, Options(effort=5000))
    assert efforts == [0] * 12


def test_parts_that_differ_in_names_alone_are_compiled_once(efforts):
    parts = [part(8, 32), part(8, 48), renamed(part(8, 32), "other/")]
    programs = compile_parts(parts, CONFIG, Options(effort=0))
    assert efforts == [0, 0]
    first, _, last = programs
    assert first.commands is last.commands and first.constants is last.constants
    for program, layers in zip(programs, parts, strict=True):
        assert tuple(spec.name for spec in program.inputs) == layers.inputs
        assert tuple(spec.name for spec in program.outputs) == layers.outputs


def test_parts_come_from_the_cache_and_are_shown_once(efforts, tmp_path):
    parts, options = [part(16, 32, 32), part(2, 16)], Options(effort=3000)
    cache = ProgramCache(tmp_path)
    programs = compile_parts(parts, CONFIG, options, cache=cache)
    efforts.clear()
    again = compile_parts(parts, CONFIG, options, cache=cache)
    assert efforts == []
    assert [x.commands for x in again] == [x.commands for x in programs]
    shown = []
    compile_parts(
        parts, CONFIG, options, cache=cache, dump=lambda i, stage, _: shown.append((i, stage))
    )
    assert len(shown) == len(set(shown))
    assert {index for index, _ in shown} == {0, 1}
