"""Numbers of things, in words."""

from collections.abc import Sequence


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, which gets an s unless the number is 1.

    Examples
    --------
    >>> counted(1, "tensor"), counted(1200, "tensor")
    ('1 tensor', '1,200 tensors')
    """
    return f"{count:,} {noun}{'s' * (count != 1)}"


def tensors_differ(count: int) -> str:
    """Return the verdict of a comparison in which some tensors differ.

    Examples
    --------
    >>> tensors_differ(1), tensors_differ(12)
    ('1 tensor differs', '12 tensors differ')
    """
    return f"{counted(count, 'tensor')} differ{'s' * (count == 1)}"


_MOST = 5
"""Names of a list that are told."""


def first_of(names: Sequence[str], *, separator: str = ", ") -> str:
    """Join the first names, and say how many more there are.

    Examples
    --------
    >>> first_of(["a", "b"]), first_of("abcdefg")
    ('a, b', 'a, b, c, d, e and 2 more')
    """
    more = f" and {len(names) - _MOST:,} more" if len(names) > _MOST else ""
    return separator.join(names[:_MOST]) + more
