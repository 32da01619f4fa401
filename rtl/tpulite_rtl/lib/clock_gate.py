"""Clocks of the engines, which may stop while an engine has nothing to do."""

from collections.abc import Mapping

from amaranth.hdl import ClockDomain, ClockSignal, Instance, Module, ResetSignal, Signal, Value
from amaranth.lib import wiring

__all__ = ["GATE", "engine_clocks"]

GATE = "tpulite_clock_gate"
"""Name of the module that the maker of a chip with ``Build.clock_gates`` provides.

Its ports are ``clk``, ``enable`` and ``gated``. What ``enable`` is while the clock is low decides
about the next edge.
"""

_ONE = "engines"


def engine_clocks(
    m: Module,
    engines: Mapping[str, wiring.PureInterface],
    *,
    clear: Value,
    users: Mapping[str, str],
    gates: bool,
) -> dict[str, str]:
    """Add clock domains for engines, with a reset each, and return their names.

    An engine may need a change of its registers only while it holds a command or its queue does,
    while something is outstanding on AXI, while it is cleared, and from a fault on. That is when
    its clock runs: in all other cycles its state is ``EngineState.IDLE``.

    Parameters
    ----------
    m : Module
        The chip, with the clock of all.
    engines : mapping of str to EngineSignature's interface
        The engines.
    clear : Value
        Reset of all engines; a register.
    users : mapping of str to str
        Engines that another one makes use of, and that one: its clock runs them, too.
    gates : bool
        Whether clocks stop, each by a module :data:`GATE`; else there is one domain.
    """
    names = list(engines) if gates else [_ONE]
    for name in names:
        m.domains += ClockDomain(name)
        m.d.comb += ResetSignal(name).eq(clear)
    if not gates:
        m.d.comb += ClockSignal(_ONE).eq(ClockSignal())
        return dict.fromkeys(engines, _ONE)
    enables = {}
    for name, engine in engines.items():
        enables[name] = Signal(name=f"{name}_works")
        works = engine.command.valid | ~engine.idle | ~engine.quiet | engine.stop
        m.d.comb += enables[name].eq(works)
    for name in engines:
        enable = enables[name] | clear
        if name in users:
            enable |= enables[users[name]]
        m.submodules[f"gate_{name}"] = Instance(
            GATE, i_clk=ClockSignal(), i_enable=enable, o_gated=ClockSignal(name)
        )
    return dict(zip(engines, names, strict=True))
