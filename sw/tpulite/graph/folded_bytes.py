"""How large the constants of a network may grow when they are computed."""

_FREE = 1 << 24
"""Bytes that any network may compute: masks, positions, tables."""

_TIMES = 8
"""Bytes that may be computed for each byte of the file's constants: a few passes over all weights,
one of them from float16."""


class FoldedBytes:
    """Counts bytes of constants that are computed, all of a network together.

    A small file can describe constants of any size, by concatenating one with itself, say.

    Parameters
    ----------
    stored : int
        Bytes of the constants that the file holds.
    """

    def __init__(self, stored: int) -> None:
        self._most = self._left = _FREE + _TIMES * stored

    def take(self, title: str, count: int) -> None:
        """Count the results of a node, before they are computed; ValueError if that is too much."""
        self._left -= count
        if self._left < 0:
            raise ValueError(
                f"{title}: constants computed by the network exceed {self._most:,} bytes; "
                "store them in the file instead"
            )
