"""What the names of strategies mean, for the legends of tables."""

import re
from collections.abc import Iterable, Iterator

_MEANINGS = {
    "resident": "all weights stay in the buffer",
    "followed": "as resident; weights arrive one channel block at a time",
    "streamed": "weights are loaded again for each tile",
    "lone": "one tile at a time, without double buffering",
    "X": "a command computes outputs along the width",
    "Y": "a command computes outputs along the height",
    "tiles": "input and weights are loaded again for each block of output channels",
    "chunks": "as tiles, several blocks of input and output channels at a time",
    "panels": "as tiles; a tile is part of one output row",
    "rows": "a tile is output rows of all channels",
    "block": "a tile is output rows of one channel block",
    "panel": "a tile is some columns of some output rows of one channel block",
    "planes": "a tile is one or more channel blocks, with all pixels",
    "slabs": "a tile is pixels of one channel block",
    "bands": "a tile is pixels of all channels",
    "/image": "a tile lies within one image",
    "/images": "a tile is one or more whole images",
    "/through": "a tile may begin in one image and end in the next",
}


def strategy_words(names: Iterable[str]) -> Iterator[str]:
    """Yield a heading, and a line for each word in the names; nothing if none is known.

    Parameters
    ----------
    names : iterable of str
        Names as in ``Strategy.name``: ``resident/image``.
    """
    used = {word for name in names for word in re.findall(r"/?\w+", name)}
    lines = [f"  {word}: {meaning}" for word, meaning in _MEANINGS.items() if word in used]
    if lines:
        yield "words in strategies:"
        yield from lines
