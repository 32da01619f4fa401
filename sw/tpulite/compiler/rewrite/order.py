"""The order of layers: what lets a large image go comes first."""

from dataclasses import replace

from tpulite.graph.layers import Layer, LayerGraph


def order_layers(layers: LayerGraph) -> LayerGraph:
    """Return the network with its layers in an order that keeps less alive.

    Among the layers that could run, the one goes first that frees more than its output takes: the
    last reader of a large image, before the branches beside it go on. Else the order is as before.
    """
    waiting = list(layers.layers)
    readers: dict[str, int] = {}
    for layer in waiting:
        for name in set(layer.inputs):
            readers[name] = readers.get(name, 0) + 1
    kept = {*layers.outputs, *layers.constants}
    ready = {*layers.inputs, *layers.constants}
    ordered: list[Layer] = []

    def growth(layer: Layer) -> int:
        freed = [x for x in set(layer.inputs) if readers[x] == 1 and x not in kept]
        return _size(layers, layer.output) - sum(_size(layers, name) for name in freed)

    while waiting:
        candidates = [layer for layer in waiting if ready.issuperset(layer.inputs)]
        best = min(candidates, key=growth)
        chosen = best if growth(best) < 0 else candidates[0]
        waiting.remove(chosen)
        ordered.append(chosen)
        ready.add(chosen.output)
        for name in set(chosen.inputs):
            readers[name] -= 1
    return replace(layers, layers=tuple(ordered))


def _size(layers: LayerGraph, name: str) -> int:
    height, width, channels = layers.activations[name].shape
    return height * width * channels
