"""The replay corpus: what the compiler makes of many networks, and whether that has changed.

The record of every case is committed (:mod:`tpulite_testing.replay.record`), so that no program
becomes slower unnoticed. ``make replay`` compares, ``make replay-write`` writes anew.
"""
