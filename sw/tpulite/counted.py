"""Numbers of things, in words."""

__all__ = ["counted", "tensors_differ"]


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
