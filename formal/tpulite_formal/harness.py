"""Harness: a component with free inputs, what is assumed of them, and what must hold."""

from amaranth.asserts import Initial
from amaranth.back import rtlil
from amaranth.hdl import Assume, Const, Module, ShapeLike, Signal, Value, ValueLike
from amaranth.lib import wiring

__all__ = ["MUTATION", "MUTATION_BITS", "Harness"]

MUTATION = "mutation"
"""Input that chooses a mutant; the same in all cycles."""

MUTATION_BITS = 10
"""Its width: what :mod:`tpulite_formal.engine` may draw is fewer than its values."""


class Harness:
    """A component under proof.

    All inputs of the component are free in every cycle, its reset included, so that what is proven
    holds whatever is around it, but for what :meth:`assume` says. Registers begin at their reset
    values.

    Parameters
    ----------
    dut : wiring.Component
        The component.

    Attributes
    ----------
    m : Module
        The harness, to which observers may be added.
    inner : Module
        The component's own: ports of its submodules may be observed.
    """

    def __init__(self, dut: wiring.Component) -> None:
        self.m = Module()
        self.inner = inner = dut.elaborate(None)
        dut.elaborate = lambda platform: inner
        self.m.submodules.dut = dut
        self.properties: dict[str, str] = {}
        self.bounds: dict[str, int] = {}
        self.covers: dict[str, str] = {}
        self._outputs: list[Signal] = []
        self._known: Value = Const(1)
        self._mutated = Signal()  # lemmas are not known of mutants
        self._inputs = _signals(dut, wiring.In)

    def register(self, name: str) -> Signal:
        """Return a register of the component that is no port: invariants speak of state."""
        found = [signal for signal in self.inner._driving if signal.name == name]
        if len(found) != 1:
            raise ValueError(f"{name}: {len(found)} signals of the component have this name")
        return found[0]

    def free(self, shape: ShapeLike, name: str) -> Signal:
        """Return a signal that may be anything in every cycle."""
        signal = Signal(shape, name=name)
        self._inputs.append(signal)
        return signal

    def cut(self, *parts: wiring.Component) -> None:
        """Let what parts of the component give be anything, whatever is in them."""
        for part in parts:
            part.elaborate = lambda platform: Module()
            self._inputs += _signals(part, wiring.Out)

    def constant(self, shape: ShapeLike, name: str) -> Signal:
        """Return a signal that may be anything, the same in all cycles."""
        signal = self.free(shape, name)
        before = Signal(shape, name=f"{name}_before", reset_less=True)
        self.m.d.sync += before.eq(signal)
        self.assume(Initial() | (signal == before))
        return signal

    def watched(self, event: ValueLike, name: str) -> tuple[Signal, Signal]:
        """Return whether this occurrence of an event is the watched one, and whether one was.

        Which one is watched, if any, is free: what holds for it holds for each.
        """
        now, before = Signal(name=f"{name}_now"), Signal(name=f"{name}_seen")
        self.m.d.comb += now.eq(self.free(1, name) & event & ~before)
        self.m.d.sync += before.eq(before | now)
        return now, before

    def assume(self, condition: ValueLike) -> None:
        """Let only those runs count in which a condition holds in every cycle so far."""
        self.m.d.comb += Assume(condition)  # pyright: ignore[reportCallIssue]: its message may lack

    def prove(self, name: str, text: str, condition: ValueLike, *, cycles: int = 0) -> None:
        """Ask for a condition to hold in every cycle of every run; the text says it to a reader.

        With ``cycles``, only in the first ones of a run.
        """
        assert name not in self.properties, name
        self.properties[name] = text
        if cycles:
            self.bounds[name] = cycles
        known = self._known | self._mutated
        self._output(f"fails_{name}", known & ~Value.cast(condition).bool())

    def lemma(self, name: str, text: str, condition: ValueLike) -> None:
        """Ask for a condition that is used by what is asked for after it.

        That need not hold in a run in which the lemma has failed, of which there is none.
        """
        self.prove(name, text, condition)
        before, known = Signal(name=f"{name}_before", init=1), Signal(name=f"{name}_known")
        self.m.d.comb += known.eq(before & Value.cast(condition).bool())
        self.m.d.sync += before.eq(known)
        self._known &= known

    def prove_stable(self, name: str, text: str, channel: wiring.PureInterface) -> None:
        """Ask for an offer of a stream to stay as it is until it is accepted."""
        payload = Value.cast(channel.payload)
        refused = Signal(name=f"{name}_refused")
        offered = Signal(len(payload), name=f"{name}_offered", reset_less=True)
        self.m.d.sync += [refused.eq(channel.valid & ~channel.ready), offered.eq(payload)]
        self.prove(name, text, ~refused | (channel.valid & (payload == offered)))

    def cover(self, name: str, text: str, condition: ValueLike) -> None:
        """Ask for some run in which a condition holds: assumptions must leave what matters."""
        assert name not in self.covers, name
        self.covers[name] = text
        self._output(f"reaches_{name}", Value.cast(condition).bool())

    def _output(self, name: str, value: Value) -> None:
        signal = Signal(name=name)
        self.m.d.comb += signal.eq(value)
        self._outputs.append(signal)

    def rtlil(self, *, mutants: int = 0) -> str:
        """Return the harness; with mutants, their number is an input. May be called once.

        Outputs ``fails_NAME`` and ``reaches_NAME`` are high when a property does not hold, or what
        is to be covered does.
        """
        if mutants:
            self.m.d.comb += self._mutated.eq(1)
            mutation = self.constant(MUTATION_BITS, MUTATION)
            self.assume((mutation != 0) & (mutation <= mutants))
        return rtlil.convert(self.m, name="top", ports=[*self._inputs, *self._outputs])


def _signals(component: wiring.Component, flow: wiring.Flow) -> list[Signal]:
    """Return the ports of a component of one direction, but for those that are constant."""
    ports = [
        Value.cast(value)
        for _path, member, value in component.signature.flatten(component)
        if member.flow == flow
    ]
    return [port for port in ports if isinstance(port, Signal) and len(port)]
