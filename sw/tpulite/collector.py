"""Python's collector of cycles, which has nothing to find while much is made and kept."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the collector of cycles, if it runs.

    A compilation makes a million values that only refer to older ones: none is garbage in a cycle,
    and looking for such took a fifth of the time of ResNet-50. Of the Verilog of a chip it took
    more than half. What has been made is then old: the collector does not look at all of it at once
    when it runs again.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()  # into the oldest generation
            gc.enable()
