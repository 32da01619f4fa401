"""How large the tensors of a network are at one shape, and how the host sees them."""

from dataclasses import replace

from tpulite.arch.memory import Window
from tpulite.compiler.bind.network import Network, Node
from tpulite.compiler.operators.operator import Shape, tensor_spec
from tpulite.program import TensorSpec


class Sizes:
    """Sizes of the tensors of a network.

    Parameters
    ----------
    shape : Shape
        The shape of its first input.
    together : int
        Images that go through it at a time.

    Attributes
    ----------
    extents : mapping of str to (int, int)
        Height and width of each tensor.
    """

    def __init__(self, network: Network, shape: Shape, together: int) -> None:
        self._network, self._shape, self._together = network, shape, together
        self._alone, self._times = len(network.nodes) == 1, shape.batch // together
        self.extents = network.extents(shape.height, shape.width)
        network.check_branches(self.extents)

    def vectors(self, name: str) -> int:
        """Return the vectors of a channel block of a tensor."""
        height, width = self.extents[name]
        return self._together * height * width

    def channels(self, name: str) -> int:
        """Return the channels of a tensor."""
        return self._network.channels(name, self._shape.channels)

    def specs(self) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
        """Return inputs and outputs as the host sees them."""
        network, layers = self._network, self._network.layers
        readers: dict[str, list[Node]] = {}
        for node in network.nodes:
            for name in dict.fromkeys(node.inputs):
                readers.setdefault(name, []).append(node)
        specs: dict[Window, list[TensorSpec]] = {Window.INPUT: [], Window.OUTPUT: []}
        for window, names in ((Window.INPUT, layers.inputs), (Window.OUTPUT, layers.outputs)):
            offset = 0
            for name in names:
                height, width = self.extents[name]
                batch = self._together
                if self._alone and network.is_pixel(name):
                    batch = 1  # one for all images
                extents = batch, height, width
                spec = tensor_spec(layers, name, window, offset, extents, self.channels(name))
                if name in network.packed:
                    patches = replace(network.packed[name].patches, count=(height, width))
                    height, width = self._shape.height, self._shape.width
                    spec = replace(spec, image=(batch, height, width), patches=patches)
                if window == Window.INPUT and len(readers.get(name, ())) == 1:
                    spec = readers[name][0].operator.source_spec(spec)
                if self._times > 1:
                    spec = replace(spec, image=(height, width), batch=self._times)
                specs[window].append(spec)
                offset += spec.nbytes(network.config)
        return tuple(specs[Window.INPUT]), tuple(specs[Window.OUTPUT])
