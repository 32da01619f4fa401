"""How a machine is written as Verilog: programs, cycles and ``CONFIG_HASH`` do not depend on it."""

from dataclasses import dataclass

MULTIPLIERS = ("dsp", "logic", "mostly_dsp", "half_dsp")
MEMORIES = ("generic", "block", "macro")
TARGETS = ("generic", "ecp5", "gw5a", "xilinx", "gates")

_LOGIC_COLUMNS = {"mostly_dsp": 8, "half_dsp": 2}
"""One of so many columns multiplies in logic."""


@dataclass(frozen=True, kw_only=True)
class Build:
    """What the Verilog of a machine is made of; the RTL gets it as Amaranth's ``platform``."""

    #: How the array and elementwise operations multiply: ``dsp`` leaves the choice to synthesis,
    #: which takes DSP blocks, ``logic`` builds adders (fewest gates without such blocks),
    #: ``mostly_dsp`` does every eighth column in logic, ``half_dsp`` every other one.
    multipliers: str = "dsp"
    #: What large memories are: ``generic`` leaves the choice to synthesis, ``block`` asks an FPGA's
    #: for block RAM, ``macro`` instantiates modules ``tpulite_ram``, which the maker of the chip
    #: provides.
    memories: str = "generic"
    #: Whether the clock of each engine stops while it has nothing to do, by a module
    #: ``tpulite_clock_gate``, which the maker of the chip provides.
    clock_gates: bool = False
    #: What synthesis maps to: ``ecp5`` uses its carry cells ``CCU2C`` where products are logic,
    #: ``gw5a`` its multipliers ``MULT12X12`` where they are not, as Yosys infers none, ``xilinx`` a
    #: ``DSP48E1`` of a 7-series part for each element that is not logic, with weights and sum in
    #: its registers, ``gates`` has no multipliers, so that the requantizer and the divider are
    #: logic, too.
    target: str = "generic"

    def __post_init__(self) -> None:
        for name, known in (
            ("multipliers", MULTIPLIERS),
            ("memories", MEMORIES),
            ("target", TARGETS),
        ):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {known}, not {getattr(self, name)!r}")
        if self.clock_gates not in (False, True):
            raise ValueError(f"clock_gates must be 0 or 1, not {self.clock_gates!r}")
        object.__setattr__(self, "clock_gates", bool(self.clock_gates))

    @classmethod
    def of(cls, platform: object) -> "Build":
        """Return the build that a component is elaborated for: the default one without any."""
        return platform if isinstance(platform, Build) else Build()

    def column_style(self, column: int) -> str:
        """Return how a column of the array multiplies: ``dsp`` or ``logic``."""
        if period := _LOGIC_COLUMNS.get(self.multipliers):
            return "dsp" if (column + 1) % period else "logic"
        return self.multipliers

    @property
    def saves_multipliers(self) -> bool:
        """Whether DSP blocks are scarce: some columns multiply in logic."""
        return self.multipliers in _LOGIC_COLUMNS

    @property
    def lane_style(self) -> str:
        """How a lane of the vector path multiplies: ``dsp`` or ``logic``."""
        return "logic" if self.multipliers == "logic" else "dsp"

    @property
    def wide_style(self) -> str:
        """How the requantizer and the divider multiply, whose products are wide."""
        return "logic" if self.target == "gates" else self.lane_style
