"""Cases that are drawn: layers of any form, layers of the sizes that networks have, networks."""

from collections.abc import Iterator
from functools import partial

from tpulite.program import Program
from tpulite_testing.drawn.choices import Seeded
from tpulite_testing.drawn.compilations import Compilation, random_compilation
from tpulite_testing.drawn.layer_graphs import MATRICES, MOVING
from tpulite_testing.drawn.narrow import narrowed
from tpulite_testing.drawn.sizes import random_sized_layer
from tpulite_testing.kept import kept_program
from tpulite_testing.replay.case import Case

__all__ = ["drawn_cases"]

_COUNTS = {
    **{"layer_form": 160, "layer_size": 200, "network": 130, "moving": 40, "upwards": 30},
    "matrices": 40,
    "int4": 20,
}
"""How many cases of each family; more are added at the end, so that those before stay the same."""

_SEEDS = {name: 10_000 * (number + 1) for number, name in enumerate(_COUNTS)}

_MORE = {
    "moving": MOVING,
    "upwards": (*MOVING, "upwards", "upwards"),
    "matrices": MATRICES,
}
"""Steps that only these draw; further ones are another family's."""

_QUICK_EVERY = 10
_SLOW = ("network/040", "network/100", "matrices/010", "moving/030")
"""Cases that take seconds."""


def drawn_cases() -> Iterator[Case]:
    """Yield all of them; names hold the number of the draw."""
    for family, count in _COUNTS.items():
        for number in range(count):
            name = f"{family}/{number:03}"
            quick = number % _QUICK_EVERY == 0 and name not in _SLOW
            yield Case(name, partial(_compile, family, _SEEDS[family] + number), quick)


def _draw(family: str, seed: int) -> Compilation:
    choices = Seeded(seed)
    if family == "layer_size":
        return random_sized_layer(choices)
    most = {"layer_form": 1, "moving": 8, "upwards": 5, "matrices": 8, "int4": 4}.get(family, 12)
    drawn = random_compilation(choices, most=most, more=_MORE.get(family, ()))
    return narrowed(drawn, seed) if family == "int4" else drawn


def _compile(family: str, seed: int) -> tuple[Program, ...]:
    drawn = _draw(family, seed)
    return (kept_program(drawn.graph, drawn.config, drawn.options),)
