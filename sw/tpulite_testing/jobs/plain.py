"""Plain networks as files of converters and quantizers, run as users run them."""

import tempfile
from functools import partial
from pathlib import Path

from tpulite.arch.config import Config
from tpulite.configs import named_config
from tpulite_testing.jobs.fewest import fewest, network_of
from tpulite_testing.plain.check import runs_as_the_library
from tpulite_testing.plain.draw import FAMILIES, draw_network
from tpulite_testing.plain.network import Network
from tpulite_testing.plain.onnx_writer import ONNX_FORMS, write_plain_onnx
from tpulite_testing.plain.tflite_writer import TFLITE_FORMS, write_plain_tflite

__all__ = [
    "batch",
    "machine",
    "plain_onnx",
    "plain_tflite",
    "run_plain_network",
    "smallest_plain_onnx",
    "smallest_plain_tflite",
    "write_plain_file",
]

_MACHINES = ("4x4", "8x8", "16x16", "32x32")
_BATCHES = (1, 1, 1, 1, 2)


def plain_tflite(seed: int) -> dict[str, int]:
    """Run a plain network as TFLite; every output is that of LiteRT's reference kernels."""
    return _run(seed, "tflite", draw_network(seed))


def plain_onnx(seed: int) -> dict[str, int]:
    """Run a plain network as ONNX; every output is that of a default ONNX Runtime."""
    return _run(seed, "onnx", draw_network(seed))


def smallest_plain_tflite(seed: int, folder: Path) -> Path:
    """Write the fewest operators of a network that still fail in the same way, as TFLite."""
    return _smallest(seed, folder / f"plain-tflite-{seed}.tflite")


def smallest_plain_onnx(seed: int, folder: Path) -> Path:
    """Write the fewest operators of a network that still fail in the same way, as ONNX."""
    return _smallest(seed, folder / f"plain-onnx-{seed}.onnx")


def machine(seed: int) -> Config:
    """Return the machine that runs a network."""
    return named_config(_MACHINES[seed % len(_MACHINES)])


def batch(seed: int) -> int:
    """Return how many inputs it takes at once."""
    return _BATCHES[seed % len(_BATCHES)]


def write_plain_file(seed: int, network: Network, path: Path) -> None:
    """Write a network in a form of the format that the path ends with, by turns."""
    turn = sum(divmod(seed, len(FAMILIES)))  # each family gets all forms
    if path.suffix == ".onnx":
        data = write_plain_onnx(network, ONNX_FORMS[turn % len(ONNX_FORMS)])
    else:
        data = write_plain_tflite(network, TFLITE_FORMS[turn % len(TFLITE_FORMS)])
    path.write_bytes(data)


def run_plain_network(seed: int, suffix: str, config: Config, device: str) -> dict[str, int]:
    """Run the network of a seed, in a format, on a machine; every output is the library's."""
    return _run(seed, suffix, draw_network(seed), config, device)


def _run(
    seed: int,
    suffix: str,
    network: Network,
    config: Config | None = None,
    device: str = "golden",
) -> dict[str, int]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"net.{suffix}"
        write_plain_file(seed, network, path)
        config = config or machine(seed)
        model, counts = runs_as_the_library(path, config, device, seed, batch(seed))
    return {"networks": 1, "operators": len(model.summary()), **counts}


def _smallest(seed: int, path: Path) -> Path:
    network = draw_network(seed)
    of, check = partial(network_of, network), partial(_run, seed, path.suffix[1:])
    write_plain_file(seed, fewest(network.steps, of, check), path)
    return path
