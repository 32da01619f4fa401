"""Cycles as people ask for them: milliseconds, and inferences/s."""

from dataclasses import dataclass

_NEGLIGIBLE = 0.01
"""Share of the MACs from which on the CPU's time counts."""


@dataclass(frozen=True)
class Speed:
    """How fast a network runs.

    A rate needs the time of the CPU, too, unless that computes at most 1 % of the MACs.

    Examples
    --------
    >>> print(Speed(50_000, 2, 100.0).line())
    50,000 cycles per batch of 2; at 100 MHz: 0.5 ms, 4,000 inferences/s
    >>> print(Speed(50_000, 1, 100.0, cpu_share=0.3, cpu_ms=1.5).line())
    50,000 cycles/inference; at 100 MHz: 0.5 ms, plus 1.5 ms on the CPU: 500 inferences/s
    >>> Speed(50_000, 1, 100.0, cpu_share=0.3).inputs_per_second is None
    True
    """

    cycles: int  #: Cycles of a run on the machine.
    batch: int = 1  #: Inferences of a run.
    mhz: float | None = None  #: Clock frequency in MHz.
    #: Which part of the MACs the CPU computes; None if that is unknown.
    cpu_share: float | None = 0.0
    cpu_ms: float | None = None  #: Milliseconds that the CPU takes for an inference.

    @property
    def complete(self) -> bool:
        """Whether the machine's cycles, with ``cpu_ms`` if given, are the time of a run."""
        small = self.cpu_share is not None and self.cpu_share <= _NEGLIGIBLE
        return small or self.cpu_ms is not None

    @property
    def milliseconds(self) -> float | None:
        """Time of a run on the machine, if there is a clock."""
        return None if self.mhz is None else self.cycles / self.mhz / 1e3

    @property
    def inputs_per_second(self) -> float | None:
        """Inferences/s, one run after the other; None without a clock or the CPU's time."""
        if self.milliseconds is None or not self.cycles or not self.complete:
            return None
        return self.batch * 1e3 / (self.milliseconds + self.batch * (self.cpu_ms or 0.0))

    def as_dict(self) -> dict[str, float | None]:
        """Return plain values that JSON can hold."""
        return {
            "mhz": self.mhz,
            "milliseconds": self.milliseconds,
            "cpu_milliseconds": self.cpu_ms,
            "inputs_per_second": self.inputs_per_second,
        }

    def line(self) -> str:
        """Return cycles, and with a clock time and rate, in words."""
        each = "/inference" if self.batch == 1 else f" per batch of {self.batch}"
        return "; ".join(filter(None, [f"{self.cycles:,} cycles{each}", self.time_words()]))

    def time_words(self) -> str:
        """Return time and rate in words, nothing without a clock."""
        if self.milliseconds is None or not self.cycles:
            return ""
        text = f"at {self.mhz:g} MHz: {_digits(self.milliseconds)} ms"
        if self.inputs_per_second is None:
            share = "an unknown share" if self.cpu_share is None else f"{self.cpu_share:.1%}"
            return (
                f"{text} on the machine; {share} of the MACs run on the CPU: "
                "give its time with --host-ms to get inferences/s"
            )
        rate = f"{_digits(self.inputs_per_second)} inferences/s"
        return (
            f"{text}, {rate}"
            if self.cpu_ms is None
            else (f"{text}, plus {_digits(self.cpu_ms)} ms on the CPU: {rate}")
        )


def _digits(value: float) -> str:
    """Return a number with three digits, or all before its point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
