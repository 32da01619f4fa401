"""Names that do not exist, and those that were perhaps meant."""

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from pathlib import Path

_ALIKE = 0.6
"""Least similarity of two names, as :mod:`difflib` measures it."""

_ALIKE_FILES = 0.7
"""The same of two files: those of a folder are many, and have nothing to do with each other."""

_FEW = 48
"""Most names that a message lists."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about a name that does not exist.

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


def no_such(what: str, name: str, known: Collection[str]) -> str:
    """Return a message about a name that does not exist, with the nearest one or all that do.

    Examples
    --------
    >>> no_such("device", "rtk", ["golden", "rtl"])
    'rtk: no such device (did you mean rtl?)'
    >>> no_such("device", "gpu", ["golden", "rtl"])
    'gpu: no such device; choose from golden, rtl'
    """
    near = did_you_mean(name, known)
    few = 0 < len(known) <= _FEW
    listed = f"; choose from {', '.join(known)}" if few and not near else ""
    return f"{name}: no such {what}{near}{listed}"


def changes_of(what: str, text: str, known: Collection[str]) -> tuple[str, dict[str, str]]:
    """Return a name and the values of the fields that are given behind it.

    Parameters
    ----------
    text : str
        ``NAME,FIELD=VALUE,FIELD=VALUE``.

    Raises
    ------
    ValueError
        If a field is unknown, has no value, or has two.

    Examples
    --------
    >>> changes_of("memory", "ddr3,read_latency=60", ["read_latency", "shared"])
    ('ddr3', {'read_latency': '60'})
    """
    name, *changes = text.split(",")
    values: dict[str, str] = {}
    for change in changes:
        field, equals, value = change.partition("=")
        if not equals:
            raise ValueError(f"{change!r} must be FIELD=VALUE; fields are {', '.join(known)}")
        if field not in known:
            raise ValueError(no_such(f"field of a {what}", field, known))
        if field in values:
            raise ValueError(f"{field} of {what} {text!r} is given twice")
        values[field] = value
    return name, values


def which_file(path: Path, names: Iterable[str] = ()) -> str:
    """Return what :func:`did_you_mean` does, of a file: one beside it, or one of other names.

    Suffixes decide only between files of one name, since they make all names look alike.
    """
    folder = path.parent
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    known = [*names, *(str(folder / each.name) for each in files)]
    stems: dict[str, list[str]] = {}
    for each in known:
        stems.setdefault(Path(each).stem.lower(), []).append(each)
    near = get_close_matches(path.stem.lower(), stems, 1, _ALIKE_FILES)
    if not near:
        return ""
    (best,) = get_close_matches(str(path), stems[near[0]], 1, 0)
    return f" (did you mean {best}?)"
