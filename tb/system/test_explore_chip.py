"""The explorer's points on the Verilated chip: the cycle model with other memories, too."""

from tpulite.arch.config import Config
from tpulite.compiler.options import Options
from tpulite.explore.chip import count_on_chip
from tpulite.explore.measure import Run, measure
from tpulite.explore.point import Point
from tpulite.explore.space import Space, read_axes
from tpulite.models import CNN_DIGITS
from tpulite.runtime.model import Model

NETWORKS = {"digits": Model.load(CNN_DIGITS).layers}


def test_the_model_follows_the_chip_with_other_memories():
    space = Space(Config(), read_axes(["dram_latency=2,25,50,400", "dram_response=2,100"]))
    values = list(space.grid())
    runs = tuple(Run("digits", Config(), Options(), space.memory_of(each)) for each in values)
    points = [
        Point(each, Config(), {"digits": outcome})
        for each, outcome in zip(values, measure(NETWORKS, runs), strict=True)
    ]
    counted = list(count_on_chip(NETWORKS, space, points, Options()))
    assert [each.machine["dram_latency"] for each in counted[::2]] == ["2", "25", "50", "400"]
    assert all(abs(each.off) <= 0.01 for each in counted)
    assert counted[0].chip < counted[-1].chip
