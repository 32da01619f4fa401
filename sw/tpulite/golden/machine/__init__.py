"""The golden machine: executes a command stream in program order, exact to the bit."""

from tpulite.golden.machine.machine import Execution, Machine, RaceError, StoredLine

__all__ = ["Execution", "Machine", "RaceError", "StoredLine"]
