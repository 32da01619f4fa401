"""Packages whose own needs are not installed are not collected for their doctests."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("litex") else ["tpulite_litex"]
