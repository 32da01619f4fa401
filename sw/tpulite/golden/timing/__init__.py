"""The cycle model: when every command of a program runs, and what its engine waits for."""

from tpulite.golden.timing.predict import predict, predict_cycles
from tpulite.golden.timing.timeline import CommandTimes, LayerTimes, Timeline

__all__ = ["CommandTimes", "LayerTimes", "Timeline", "predict", "predict_cycles"]
