"""Names that users choose by regular expressions."""

import re
from collections.abc import Iterable, Sequence


def matching(patterns: Sequence[str], names: Iterable[str], nothing: str) -> list[str]:
    """Return names in which a regular expression is found, pattern by pattern; all without one.

    Parameters
    ----------
    nothing : str
        What to say of an expression that matches none.

    Raises
    ------
    ValueError
        If an expression is wrong or matches nothing.
    """
    every = list(names)
    chosen: dict[str, None] = {}
    for pattern in patterns or [""]:
        try:
            found = [name for name in every if re.search(pattern, name)]
        except re.error as error:
            raise ValueError(f"{pattern}: not a regular expression: {error}") from error
        if not found:
            raise ValueError(f"{pattern}: {nothing}")
        chosen |= dict.fromkeys(found)
    return list(chosen)
