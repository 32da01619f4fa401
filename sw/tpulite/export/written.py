"""Files of an exported folder, written without losing what a user has edited."""

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from tpulite.atomic import write_whole

MAIN = "main.c"
"""The example, which users edit."""


def write_files(
    folder: Path, files: Mapping[str, str | bytes], main: Path, words: Mapping[str, str]
) -> tuple[Path, ...]:
    """Write files and the example ``main.c``, and return the paths of those written.

    A ``main.c`` that differs from what this version writes for a network of any name is kept.

    Parameters
    ----------
    folder : Path
        Where to; it is made if it is not there.
    files : mapping of str to str or bytes
        Contents, by paths in the folder.
    words : mapping of str to str
        What replaces each ``@WORD@`` of the template.
    """
    template = main.read_text()
    if not _is_edited(folder / MAIN, template):
        example = template
        for word, value in words.items():
            example = example.replace(f"@{word}@", value)
        files = {**files, MAIN: example}
    for file, content in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        data = content if isinstance(content, bytes) else content.encode()
        write_whole(folder / file, partial(Path.write_bytes, data=data))
    return tuple(folder / file for file in files)


def _is_edited(path: Path, template: str) -> bool:
    if not path.exists():
        return False
    written = re.sub(r"@[A-Z]+@", r"\\w+", re.escape(template))
    return re.fullmatch(written, path.read_text(errors="replace")) is None
