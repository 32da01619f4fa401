"""Readable text of what a network can do without."""

from tpulite.compiler.dump.text import columns, short
from tpulite.compiler.rewrite.simplify.network import Simplified


def simplified_text(simplified: Simplified) -> str:
    """Return a line for each image that is narrower than it was, or is gone."""
    title = (
        f"removed: {simplified.removed_channels:,} channels, {simplified.removed_macs:,} MACs, "
        f"{len(simplified.originals)} copies\n"
    )
    narrow = [
        (
            short(name),
            f"{mask.sum():,}",
            f"{mask.size:,}",
            f"{(simplified.ranges[name].constant & ~mask).sum():,}",
        )
        for name, mask in simplified.needed.items()
    ]
    if narrow:
        heads = ("image", "channels", "of", "other constants")
        title += columns(heads, narrow, right=(1, 2, 3))
    copies = [(short(name), short(other)) for name, other in simplified.originals.items()]
    return title + (columns(("copy", "of"), copies) if copies else "")
