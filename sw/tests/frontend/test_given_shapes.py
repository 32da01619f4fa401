"""Extents that a file leaves open: what is given settles them, an open batch is 1."""

import pytest

from tpulite.frontend.given_shapes import AS_IN_FILE, GivenShapes


def test_a_fixed_shape_stays_as_it_is():
    assert AS_IN_FILE.settle({"x": [2, 3], "s": [], "none": [0, 4]}) == {
        "x": (2, 3),
        "s": (),
        "none": (0, 4),
    }


def test_an_open_batch_is_1_wherever_its_name_stands():
    assert AS_IN_FILE.settle({"x": ["n", 3], "state": [2, "n", 8], "y": ["", 4]}) == {
        "x": (1, 3),
        "state": (2, 1, 8),
        "y": (1, 4),
    }


def test_a_given_batch_is_not_1():
    inputs = {"x": ["n", 3], "state": [2, "n", 8]}
    assert GivenShapes(dims={"n": 4}).settle(inputs) == {"x": (4, 3), "state": (2, 4, 8)}


def test_an_extent_of_a_shape_counts_wherever_its_name_stands():
    given = GivenShapes({"ids": (1, 128)})
    assert given.settle({"ids": ["n", "sequence"], "mask": ["n", "sequence"]}) == {
        "ids": (1, 128),
        "mask": (1, 128),
    }


def test_dims_give_extents_by_name():
    given = GivenShapes(dims={"h": 8, "w": 6})
    assert given.settle({"x": [1, 3, "h", "w"]}) == {"x": (1, 3, 8, 6)}


def test_an_input_without_a_shape_is_a_scalar_unless_one_is_given():
    assert AS_IN_FILE.settle({"x": None}) == {"x": ()}
    assert GivenShapes({"x": (2, 3)}).settle({"x": None}) == {"x": (2, 3)}


def test_fixed_extents_may_change_where_the_format_allows_it():
    given = GivenShapes({"x": (4, 3)})
    assert given.settle({"x": [1, 3]}, fixed=False) == {"x": (4, 3)}


INPUTS = {"pixels": ["n", 3, "h", "w"], "size": [2]}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            AS_IN_FILE,
            "input 'pixels' has the shape nx3xhxw; give it with --shape pixels=1x3x64x64 or "
            "--dim h=64 --dim w=64",
        ),
        (
            GivenShapes(dims={"h": 8}),
            "input 'pixels' has the shape nx3xhxw; give it with --shape pixels=1x3x8x64 or "
            "--dim w=64",
        ),
        (
            GivenShapes({"pixel": (1, 3, 8, 8)}),
            "--shape pixel: no such input (did you mean pixels?)",
        ),
        (
            GivenShapes({"image": (1, 3, 8, 8)}),
            "--shape image: no such input; choose from pixels, size",
        ),
        (
            GivenShapes(dims={"height": 8}),
            "--dim height: no such open dimension; choose from h, n, w",
        ),
        (
            GivenShapes({"pixels": (3, 8, 8)}),
            "--shape pixels=3x8x8: the file's shape is nx3xhxw, which has 4 extents, not 3",
        ),
        (
            GivenShapes({"pixels": (1, 1, 8, 8)}),
            "--shape pixels=1x1x8x8: the file's shape is nx3xhxw: extent 1 is 3, not 1",
        ),
        (
            GivenShapes({"pixels": (1, 3, 8, 8)}, {"h": 9}),
            "--shape pixels=1x3x8x8: 'h' is 8 here and 9 elsewhere",
        ),
        (
            GivenShapes({"pixels": (1, 3, 0, 8)}),
            "--shape pixels=1x3x0x8: extents must be 1 or more",
        ),
        (GivenShapes(dims={"h": 0}), "--dim h=0: an extent must be 1 or more"),
    ],
)
def test_what_does_not_fit_is_refused_in_two_lines_of_a_terminal(given, text):
    with pytest.raises(ValueError, match=r".") as caught:
        given.settle(INPUTS)
    assert str(caught.value) == text
    assert len(f"net.onnx: {text}") <= 2 * 80


def test_a_shape_contradicts_itself_where_one_name_has_two_extents():
    with pytest.raises(ValueError, match=r"'s' is 4 here and 3 elsewhere"):
        GivenShapes({"x": (3, 4)}).settle({"x": ["s", "s"]})


def test_open_extents_without_a_name_can_be_given_by_shape_alone():
    with pytest.raises(ValueError, match=r"has the shape 1x\?x4; give it with --shape x=1x64x4$"):
        AS_IN_FILE.settle({"x": [1, "", 4]})
    with pytest.raises(ValueError, match=r"^--dim h: no such open dimension$"):
        GivenShapes(dims={"h": 2}).settle({"x": [1, "", 4]})


def test_a_question_mark_is_no_name(tmp_path):
    pytest.importorskip("onnx", reason="onnx is missing (pip install onnx)")
    from tpulite.frontend.files import load_graph
    from tpulite_testing.files.onnx_builder import OnnxBuilder

    b = OnnxBuilder()
    path = tmp_path / "net.onnx"
    path.write_bytes(b.build(b.node("Relu", b.input("x", (1, 3, "?", "?")))))
    graph = load_graph(path, GivenShapes({"x": (1, 3, 8, 6)}))
    assert graph.tensors["x"].shape == (1, 3, 8, 6)
    with pytest.raises(ValueError, match=r"1x3x\?x\?; give it with --shape x=1x3x64x64$"):
        load_graph(path)
