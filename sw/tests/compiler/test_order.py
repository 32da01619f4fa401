from hypothesis import given

from tpulite.compiler.rewrite.order import order_layers
from tpulite_testing.drawn.plain_graphs import GraphBuilder, layer_graphs


def names(layers):
    return [layer.name for layer in layers.layers]


def branches(*outputs):
    """Return x -> a -> b, the wide one, and x -> c beside them; the sum of both is wide, too."""
    builder = GraphBuilder((8, 8, 64))
    builder.conv("x", 16, 1, name="a")
    builder.conv("a", 32, 1, name="b")
    builder.conv("x", 32, 1, name="c")
    builder.add("b", "c", name="sum")
    return builder.graph(*outputs)


def test_the_last_reader_of_a_large_image_comes_first():
    assert names(order_layers(branches())) == ["a", "c", "b", "sum"]


def test_images_that_stay_anyway_change_nothing():
    builder = GraphBuilder((8, 8, 16))
    builder.conv("x", 64, 1, name="large")
    builder.conv("large", 16, 1, name="a")
    builder.conv("a", 32, 1, name="b")
    builder.conv("large", 32, 1, name="c")
    assert names(order_layers(builder.graph("b", "c"))) == ["large", "a", "c", "b"]
    plain = builder.graph("b", "c", "large")
    assert names(order_layers(plain)) == names(plain)


def test_only_the_last_reader_lets_an_image_go():
    builder = GraphBuilder((8, 8, 32))
    builder.conv("x", 64, 1, name="a")
    builder.conv("x", 48, 1, name="b")
    builder.conv("a", 16, 1, name="c")
    builder.conv("a", 16, 1, name="d")
    layers = builder.graph("b", "c", "d")
    assert names(order_layers(layers)) == ["a", "b", "c", "d"]


@given(layer_graphs())
def test_any_order_has_the_same_layers_in_a_legal_order(layers):
    ordered = order_layers(layers)  # the graph checks that nothing is read before it is computed
    assert sorted(names(ordered)) == sorted(names(layers))
    assert {layer.name: layer for layer in ordered.layers} == {x.name: x for x in layers.layers}
