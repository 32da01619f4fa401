"""Published networks by their names, and the files of them."""

from collections.abc import Callable, Mapping, Sequence

from tpulite_testing.published import classifiers, language, sequences, vision
from tpulite_testing.published.network import Network

__all__ = ["NETWORKS", "SMALL", "network_file"]

NETWORKS: Mapping[str, Callable[[Network], int | Sequence[int]]] = {
    make.__name__: make
    for make in (
        classifiers.efficientnet_lite0,
        classifiers.mobilenet_v3_large,
        classifiers.shufflenet_v2,
        classifiers.ghostnet,
        classifiers.squeezenet,
        classifiers.densenet,
        vision.yolo_v5n,
        vision.yolo_v5_eighth,
        vision.yolo_v8n,
        vision.mobilefacenet,
        vision.blazeface,
        vision.unet,
        vision.deeplab_v3_head,
        vision.espcn,
        vision.fsrcnn,
        sequences.convnext_block,
        sequences.swin_block,
        sequences.ds_tcn,
        language.minilm_block,
        language.deit_block,
        language.stories_prefill,
        language.stories_token,
    )
}
"""Each adds its layers and returns its outputs; the docstring names the paper."""


SMALL = (
    *("blazeface", "espcn", "convnext_block", "swin_block", "ds_tcn"),
    *("deit_block", "stories_prefill"),
)
"""Networks that compile in about two seconds."""


def network_file(name: str) -> bytes:
    """Return a network as an int8 file of TFLite."""
    net = Network()
    ends = NETWORKS[name](net)
    return net.build(*([ends] if isinstance(ends, int) else ends), name=name)
