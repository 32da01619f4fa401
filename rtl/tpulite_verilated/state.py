"""The Verilated chip with registers and memories that can be changed from outside."""

import ctypes
import re
from dataclasses import dataclass
from functools import cache, cached_property

from tpulite.arch.config import Config
from tpulite_verilated.library import cached_verilog
from tpulite_verilated.rtl_device import RtlDevice

__all__ = ["StateDevice", "Variable", "with_public_state"]

_MODULE = re.compile(r"^module .*?^endmodule$", re.MULTILINE | re.DOTALL)
_ASSIGNED = re.compile(r"^\s+(\\?\S+?)\s*(?:\[[^;=]*\]\s*)?<= ", re.MULTILINE)
_DECLARED = re.compile(
    r"^(\s*reg (?:\[[^\]]*\] )?)(\S+)( *(?:\[[^\]]*\])?)((?: *= [^;]*)?;)", re.MULTILINE
)
_PUBLIC = "/*verilator public_flat_rw*/"


@dataclass(frozen=True)
class Variable:
    """A register, which is one word, or a memory."""

    number: int  #: What the simulator calls it.
    module: str  #: The instance that it belongs to, as ``tpulite.mxu.array.pe_0_0``.
    name: str  #: What it is called there.
    #: Its size.
    words: int
    bits: int

    @property
    def size(self) -> int:
        """How many bits it has in all."""
        return self.words * self.bits


class StateDevice(RtlDevice):
    """The chip of a configuration; each bit of its state can be flipped between two cycles.

    Takes what :class:`RtlDevice` takes, but for ``verilog``. It is several times slower.
    """

    def __init__(self, config: Config, **options) -> None:
        super().__init__(config, verilog=_public_verilog(config), **options)

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """All registers and memories, in the order of their names."""
        found = []
        words, bits = ctypes.c_int(), ctypes.c_int()
        for number in range(self._library.chip_state_size(self._chip)):
            module, _, name = (
                self._library.chip_state_name(self._chip, number).decode().partition(" ")
            )
            self._library.chip_state_shape(
                self._chip, number, ctypes.byref(words), ctypes.byref(bits)
            )
            found.append(Variable(number, module, name.strip("\\ "), words.value, bits.value))
        return tuple(found)

    def flip(self, variable: Variable, bit: int) -> None:
        """Flip a bit, now.

        Parameters
        ----------
        variable : Variable
            One of :attr:`variables`.
        bit : int
            Counted from the lowest of the first word.

        Raises
        ------
        ValueError
            If it has no such bit.
        """
        if not 0 <= bit < variable.size:
            raise ValueError(f"{variable.name} has {variable.size} bits, there is no bit {bit}")
        word, place = divmod(bit, variable.bits)
        self._library.chip_flip(self._chip, variable.number, word, place)


@cache
def _public_verilog(config: Config) -> str:
    return with_public_state(cached_verilog(config))


def with_public_state(verilog: str) -> str:
    """Declare what is assigned at clock edges public, in Verilog as Yosys writes it."""
    return _MODULE.sub(_publish, verilog)


def _publish(module: re.Match[str]) -> str:
    text = module[0]
    state = set(_ASSIGNED.findall(text))

    def mark(declared: re.Match[str]) -> str:
        before, name, words, after = declared.groups()
        if name not in state:
            return declared[0]
        state.remove(name)
        return f"{before}{name} {words}{_PUBLIC}{after}"

    text = _DECLARED.sub(mark, text)
    assert not state, f"{state} are declared in another way than Yosys does"
    return text
