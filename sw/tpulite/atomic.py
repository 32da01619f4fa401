"""Files that are there whole or not at all."""

import errno
import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def write_whole(path: Path, save: Callable[[Path], object]) -> None:
    """Write a file by ``save`` under another name, then rename it.

    A failure leaves what was there before, and nothing else. OSError if the file cannot be written;
    it names ``path``.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    os.close(handle)
    temporary = Path(name)
    try:
        _save(path, temporary, save)
        # mkstemp lets nobody else read it; files that people ask for are like other files.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _save(path: Path, temporary: Path, save: Callable[[Path], object]) -> None:
    """Write the file under its other name; errors of a full disk name no file of themselves."""
    try:
        save(temporary)
    except OSError as error:
        if error.strerror is None or error.filename not in (None, str(temporary)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
