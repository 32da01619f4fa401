"""How int8 tensors of a file are named that ONNX Runtime has made uint8, by adding 128."""

AS_UINT8 = "/uint8"
"""What follows the name of an int8 tensor of the file that the library has made uint8."""


def was_int8(name: str) -> bool:
    """Return whether a tensor is int8 in the file; its layout may follow the name.

    Examples
    --------
    >>> was_int8("x/uint8.nhwc"), was_int8("x.nhwc")
    (True, False)
    """
    return AS_UINT8 in name
