"""From a PyTorch network to two ONNX files: of floats, and quantized by PyTorch itself (PT2E).

Run it with ``python examples/pytorch_digits.py``, where torch, torchao, onnx and onnxscript are
installed. It trains a small classifier of the handwritten digits that come with tpulite, and writes

- ``digits_float.onnx``, for ``tpulite quantize``,
- ``digits_pt2e.onnx``, int8 already,
- ``samples.npy``: images to calibrate with,
- ``held_out_torch.npz``: images that it has not seen and their classes, for ``tpulite evaluate``.
"""

# pyright: reportMissingImports=false, reportMissingModuleSource=false

import numpy as np
import torch
from torch import nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

from tpulite.models import DigitsTest

TRAINING, SAMPLES = 320, 100


class Quantizer(x86.X86InductorQuantizer):
    """PyTorch's quantizer for CPUs, and int8 for the output of the last layer, too."""

    def annotate(self, model: torch.fx.GraphModule) -> torch.fx.GraphModule:
        """Say which tensors are quantized, and how."""
        model = super().annotate(model)
        last = next(x for x in model.graph.nodes if x.target is torch.ops.aten.linear.default)
        config = x86.get_default_x86_inductor_quantization_config()
        last.meta["quantization_annotation"].output_qspec = config.output_activation
        return model


def train(x: torch.Tensor, y: torch.Tensor) -> nn.Module:
    """Return a trained network; x [n, 1, 16, 16] in 0..1, y [n] classes."""
    torch.manual_seed(2024)
    network = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 10),
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    for _ in range(200):
        batch = torch.randint(0, len(x), (64,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(x[batch]), y[batch]).backward()
        optimizer.step()
    return network.eval()


# begin quantize
def quantize(network: nn.Module, samples: torch.Tensor) -> nn.Module:
    """Return the network quantized by PT2E, with the ranges that the samples have."""
    exported = torch.export.export(network, (samples[:1],)).module()
    config = x86.get_default_x86_inductor_quantization_config()
    prepared = prepare_pt2e(exported, Quantizer().set_global(config))
    for sample in samples:
        prepared(sample[None])
    return convert_pt2e(prepared)


# end quantize


def save(network: nn.Module, sample: torch.Tensor, path: str) -> None:
    """Write a network as ONNX, its batch fixed to that of the sample."""
    names = {"input_names": ["image"], "output_names": ["logits"]}
    exported = torch.export.export(network, (sample,))
    torch.onnx.export(exported, (sample,), path, dynamo=True, external_data=False, **names)


def main() -> None:
    """Train, quantize and write."""
    digits = DigitsTest.load()
    x = torch.from_numpy(digits.images.astype(np.float32) / 127).reshape(-1, 1, 16, 16)
    y = torch.from_numpy(digits.labels.astype(np.int64))
    samples, held_out = x[:SAMPLES], x[TRAINING:]
    network = train(x[:TRAINING], y[:TRAINING])
    quantized = quantize(network, samples)
    for name, each in (("float", network), ("pt2e", quantized)):
        save(each, x[:1], f"digits_{name}.onnx")
        logits = torch.cat([each(image[None]) for image in held_out])
        right = (logits.argmax(1) == y[TRAINING:]).double().mean()
        print(f"digits_{name}.onnx: {right:.1%} of {len(held_out)} held-out digits are right")
    np.save("samples.npy", samples.numpy())
    np.savez_compressed("held_out_torch.npz", x=held_out.numpy(), y=y[TRAINING:].numpy())


if __name__ == "__main__":
    main()
