"""On which simulators ``make test`` runs the sizes of a bench."""

__all__ = ["SIMULATORS", "simulators_of"]

SIMULATORS = ("verilator", "icarus")


def simulators_of(sizes: int) -> list[tuple[str, ...]]:
    """Return the simulators of each size of a bench.

    The first size, the smallest that has all of the component, draws in full on Verilator and a
    part on Icarus, so that what only one of them shows has been seen on the other. The rest run on
    Icarus alone, whose models need no C++.

    Examples
    --------
    >>> simulators_of(3)
    [('verilator', 'icarus'), ('icarus',), ('icarus',)]
    """
    return [SIMULATORS, *[(SIMULATORS[1],)] * (sizes - 1)]
