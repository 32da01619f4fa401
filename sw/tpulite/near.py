"""Names that look like one that somebody has typed."""

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["did_you_mean"]

_ALIKE = 0.6
"""Least similarity of two names, as :mod:`difflib` measures it."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about a name that does not exist.

    Parameters
    ----------
    name : str
        What was typed.
    known : iterable of str
        What exists.

    Returns
    -------
    str
        `` (did you mean X?)``, or nothing if no name looks like it. Case does not count.

    Examples
    --------
    >>> did_you_mean("resnet9", ["resnet8", "kws"])
    ' (did you mean resnet8?)'
    >>> did_you_mean("x", ["resnet8"])
    ''
    """
    spelled = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), spelled, 1, _ALIKE)
    return f" (did you mean {spelled[near[0]]}?)" if near else ""
