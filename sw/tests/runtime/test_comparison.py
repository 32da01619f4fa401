import numpy as np
import pytest

from tpulite.runtime.comparison import compare_tensors

NAMES = {"a": "conv", "b": "add", "c": "softmax"}


def test_differences_are_counted_over_all_inputs():
    zeros = np.zeros((2, 2), np.int8)
    one, three = zeros.copy(), zeros.copy()
    one[1, 0], three[0, 1] = 1, -3
    runs = [
        ({"a": zeros, "b": zeros}, {"a": zeros, "b": zeros}),
        ({"a": zeros, "b": zeros}, {"a": zeros, "b": one, "d": one}),
        ({"a": zeros, "b": zeros}, {"a": zeros, "b": three}),
    ]
    same, differs = compare_tensors(NAMES, runs)
    assert (same.name, same.elements, same.different, same.first) == ("a", 12, 0, None)
    assert (differs.node, differs.elements, differs.different) == ("add", 12, 2)
    assert (differs.largest, differs.first) == (3.0, (1, 1, 0))


def test_bits_are_compared_not_values():
    x = np.array([np.nan, 1.0], np.float32)
    (result,) = compare_tensors({"a": ""}, [({"a": x}, {"a": x.copy()})])
    assert result.different == 0
    (result,) = compare_tensors({"a": ""}, [({"a": x}, {"a": np.ones(2, np.float32)})])
    assert result.different == 1


def test_shapes_may_differ_but_not_sizes_and_dtypes():
    x = np.zeros((1, 4), np.int8)
    assert compare_tensors({"a": ""}, [({"a": x}, {"a": x.reshape(4)})])[0].different == 0
    for other in (x.astype(np.uint8), np.zeros((1, 5), np.int8)):
        with pytest.raises(ValueError, match=r"^Tensor 'a' is int8 of shape \[1, 4\] here and "):
            compare_tensors({"a": ""}, [({"a": x}, {"a": other})])


def test_channels_that_are_not_known_are_left_out():
    ours, theirs = np.zeros((2, 2, 3), np.int8), np.zeros((2, 2, 3), np.int8)
    ours[..., 1], theirs[1, 0, 2] = 9, 4
    runs = [({"a": ours, "b": ours}, {"a": theirs, "b": ours})]
    known = {"a": np.array([True, False, True])}
    narrow, whole = compare_tensors(NAMES, runs, known)
    assert (narrow.elements, narrow.left_out, narrow.different) == (8, 4, 1)
    assert narrow.first == (0, 1, 0, 2)
    assert (whole.elements, whole.left_out) == (12, 0)
