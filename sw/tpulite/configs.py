"""Configurations with a name, for command lines and the Makefile."""

from tpulite.arch.config import Config

__all__ = ["CONFIGS", "named_config"]

CONFIGS: dict[str, Config] = {
    "4x4": Config(array_size=4),
    "8x8": Config(array_size=8),
    "16x16": Config(array_size=16),
    "32x32": Config(array_size=32),
    # An LFE5U-85 has 156 multipliers of 18 x 18 and 208 block RAMs: half of the array is built in
    # logic, the requantizer has two lanes and one rounding, and the vector path has one lane.
    "ecp5": Config(
        array_size=16,
        requant_lanes=2,
        vector_lanes=1,
        roundings=("float32",),
        multipliers="mixed",
    ),
}


def named_config(name: str) -> Config:
    """Return a configuration by name.

    Raises
    ------
    ValueError
        If there is none of that name.

    Examples
    --------
    >>> named_config("8x8").array_size
    8
    """
    if name not in CONFIGS:
        raise ValueError(f"Configuration must be one of {', '.join(CONFIGS)}, not {name!r}")
    return CONFIGS[name]
