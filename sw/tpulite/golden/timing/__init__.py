"""The cycle model: when every command of a program runs, and what its engine waits for."""

from tpulite.golden.timing.predict import (
    CommandTimes,
    Timeline,
    measured_once,
    predict,
    predict_cycles,
    program_cycles,
    program_timeline,
    total_cycles,
)

__all__ = [
    "CommandTimes",
    "Timeline",
    "measured_once",
    "predict",
    "predict_cycles",
    "program_cycles",
    "program_timeline",
    "total_cycles",
]
