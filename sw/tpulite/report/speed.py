"""Cycles as people ask for them: milliseconds, and inputs a second."""

from dataclasses import dataclass

__all__ = ["Speed"]


@dataclass(frozen=True)
class Speed:
    """How fast the machine runs a network; what the host computes takes time of its own.

    Parameters
    ----------
    cycles : int
        Cycles of a run.
    batch : int
        Inputs of a run.
    mhz : float, optional
        The clock in MHz, if there is one to reckon with.

    Examples
    --------
    >>> print(Speed(50_000, 2, 100.0).line())
    50,000 cycles a batch of 2; at 100 MHz 0.5 ms, 4,000 inputs a second
    """

    cycles: int
    batch: int = 1
    mhz: float | None = None

    @property
    def milliseconds(self) -> float | None:
        """Time of a run, if there is a clock."""
        return None if self.mhz is None else self.cycles / self.mhz / 1e3

    @property
    def inputs_per_second(self) -> float | None:
        """Inputs a second, one run after the other, if there is a clock and something to do."""
        return (
            None
            if self.mhz is None or not self.cycles
            else self.batch * self.mhz * 1e6 / self.cycles
        )

    def as_dict(self) -> dict[str, float | None]:
        """Return plain values that JSON can hold."""
        return {
            "mhz": self.mhz,
            "milliseconds": self.milliseconds,
            "inputs_per_second": self.inputs_per_second,
        }

    def line(self) -> str:
        """Return cycles, and with a clock time and rate, in words."""
        each = "an input" if self.batch == 1 else f"a batch of {self.batch}"
        return "; ".join(filter(None, [f"{self.cycles:,} cycles {each}", self.time_words()]))

    def time_words(self) -> str:
        """Return time and rate in words, nothing without a clock."""
        if self.milliseconds is None or self.inputs_per_second is None:
            return ""
        rate = f"{_digits(self.inputs_per_second)} inputs a second"
        return f"at {self.mhz:g} MHz {_digits(self.milliseconds)} ms, {rate}"


def _digits(value: float) -> str:
    """Return a number with three digits, or all before its point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
