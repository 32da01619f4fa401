import pytest

from tpulite.arch.build import Build


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (
            {"multipliers": "mixed"},
            "multipliers must be one of ('dsp', 'logic', 'mostly_dsp', 'half_dsp'), not 'mixed'",
        ),
        ({"memories": "x"}, "memories must be one of ('generic', 'block', 'macro'), not 'x'"),
        (
            {"target": "x"},
            "target must be one of ('generic', 'ecp5', 'gw5a', 'xilinx', 'gates'), not 'x'",
        ),
        ({"clock_gates": 2}, "clock_gates must be 0 or 1, not 2"),
    ],
)
def test_refuses_a_wrong_value(values, text):
    with pytest.raises(ValueError, match="must") as caught:
        Build(**values)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("build", "columns", "lanes", "wide"),
    [
        (Build(), "dddddddddddddddd", "dsp", "dsp"),
        (Build(multipliers="mostly_dsp"), "dddddddldddddddl", "dsp", "dsp"),
        (Build(multipliers="half_dsp"), "dldldldldldldldl", "dsp", "dsp"),
        (Build(multipliers="logic"), "llllllllllllllll", "logic", "logic"),
        (Build(target="gates"), "dddddddddddddddd", "dsp", "logic"),
    ],
)
def test_multiplies_by_column_and_lane(build, columns, lanes, wide):
    assert "".join(build.column_style(column)[0] for column in range(16)) == columns
    assert (build.lane_style, build.wide_style) == (lanes, wide)


def test_what_is_no_build_is_written_as_by_default():
    build = Build(memories="block")
    assert Build.of(build) is build
    assert Build.of(None) == Build.of(object()) == Build()
