"""The page of operators: where each runs, and why not."""

import textwrap
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from tpulite.quant.exactness import Exactness
from tpulite_testing.operators.conditions import Conditions
from tpulite_testing.operators.probe import Answer, Probe, file_names, quantized_forms

__all__ = ["COLUMNS", "page"]

COLUMNS = {
    "tflite": tuple(e for e in Exactness if e.litert),
    "onnx": (Exactness.ORT, Exactness.LITERT_REF),
}
TITLES = {"tflite": "TFLite", "onnx": "ONNX"}

INTRODUCTION = """\
# Operators

Where tpulite runs each operator of TFLite and ONNX files, with which numerics, and under which
conditions. `python scripts/operators_page.py` writes this page from the code: **runs on** and the
columns of the [numerics](exactness.md) are the outcome of {count} random cases per operator. The
conditions at the end are all messages with which the compiler refuses an operator. `tpulite
inspect` reports the same for your file.

- **matrix unit**, **vector path**: the unit of the machine that computes the operator.
- **data movement**: the machine copies; whole channel blocks are views, which take no cycles.
- **view**: a change of shape, which takes no cycles.
- **yes**: on the machine in all cases. **n of m**: on the machine in n cases; the library computes
  the others for one of the reasons below. (A quarter of the scales are powers of two, so functions
  whose last bit depends on the CPU score lower here than in real networks.)
- **numpy**: on the CPU by numpy. **library**: on the CPU by LiteRT (TFLite files) or ONNX Runtime
  (ONNX files).

The tables are for int8 and uint8. Operators on floats and other integers, and operators that the
tables do not list, run on the CPU.

- A [machine with int16](decisions/0033-int16.md) also runs int16 activations of convolutions
  (depthwise and transposed ones included), pools, `MEAN`, maxima, ReLUs, `ADD`, `SUB`,
  `SVDF`, `QUANTIZE` and data movement, with all numerics of LiteRT, and `FULLY_CONNECTED` with
  those of TFLite Micro. `MUL`, `LOGISTIC` and `TANH` of int16 run on the CPU.
- `SPACE_TO_BATCH_ND` and `BATCH_TO_SPACE_ND` around a convolution become its dilation.
- In a network, cheap operators next to a CPU part are fused into it, where that saves transfers.
- `--exact bm1684x` defines only convolutions, depthwise and dense layers, and operators that do
  not round.
"""

_TITLES = {"pick": "selection"}
"""What readers call operators that graphs call otherwise."""

LEFT = {
    "ARG_MAX": "its result has 32 or 64 bits; numpy computes it",
    "L2_NORMALIZATION": "each pixel has its own multiplier, the root of a sum of squares",
    "LOG_SOFTMAX": "its fixed-point arithmetic takes logarithms of 32-bit sums",
    "SVDF": "a machine with int16 runs it, with all numerics of LiteRT; others lack its window",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (
        "its products run on the matrix unit, gates and cells on the CPU by numpy; with a "
        "projection, a layer normalization or more than 128 steps the library runs it"
    ),
    "LayerNormalization": "float sums, whose order only the library knows",
    "InstanceNormalization": "float sums, whose order only the library knows",
    "ReduceMean": "float32 sums, whose order only the library knows",
    "ReduceSum": "float32 sums, whose order only the library knows",
}
"""Why operators that users look for never run on the machine with the numerics of their library."""


def page(probe: Probe, conditions: Conditions) -> str:
    """Return the text of the page."""
    lines = INTRODUCTION.format(count=probe.count).splitlines()
    users: dict[str, dict[str, None]] = defaultdict(dict)
    for file_format, columns in COLUMNS.items():
        lines += ["", f"## {TITLES[file_format]}", ""]
        header = ["operator", "runs on", *(f"`{e}`" for e in columns), "conditions"]
        lines += ["| " + " | ".join(header) + " |", "| --- " * len(header) + "|"]
        for name in file_names(file_format):
            answers = {e: probe.answer(file_format, name, e) for e in columns}
            operators = sorted({op for answer in answers.values() for op in answer.operators})
            linked = [op for op in operators if conditions.lowered(op)]
            for op in linked:
                users[op][f"{TITLES[file_format]} `{name}`"] = None
            cells = [f"`{name}`", _places(answers.values()), *map(str, answers.values())]
            cells.append(", ".join(f"[{_title(op)}](#{_title(op)})" for op in linked))
            lines.append("| " + " | ".join(cells) + " |")
    forms = sorted(quantized_forms().items())
    names = ", ".join(f"`{name}` as `{plain}`" for name, plain in forms)
    text = f"Quantized forms of operators are counted with the plain ones: {names}."
    lines += ["", *textwrap.wrap(text, 120), "", "## Operators left to the CPU", ""]
    lines += [f"- `{name}`: {reason}." for name, reason in LEFT.items()]
    return "\n".join([*lines, "", *_conditions(conditions, users)]).rstrip() + "\n"


def _title(op: str) -> str:
    """Return what the page calls an operator of graphs."""
    return _TITLES.get(op, op)


def _places(answers: Collection[Answer]) -> str:
    """Return where the machine computes an operator, if it does anywhere."""
    if answers and all(answer.free for answer in answers):
        return "no computation"
    found = {place: None for answer in answers for place in answer.places}
    return ", ".join(found) or "CPU"


def _conditions(conditions: Conditions, users: Mapping[str, Mapping[str, None]]) -> Iterator[str]:
    """Yield the part of the page that says when operators are refused."""
    yield from ["## Conditions", ""]
    yield "An operator with one of these messages runs on the CPU, unless `--strict` forbids it."
    yield "`…` stands for names and numbers of the case, EXACT for the value of `--exact`."
    yield from ["", "### any operator", ""]
    yield from (f"- {text}" for text in conditions.common)
    for op in sorted(users, key=_title):
        yield from ["", f"### {_title(op)}", "", f"{', '.join(users[op])}.", ""]
        texts = [f"- {text}" for text in conditions.of(op)]
        for user in users[op]:
            title, _, name = user.partition(" ")
            said = conditions.of_file(title.lower(), name.strip("`"), op)
            texts += [f"- {user}: {'; '.join(said)}"] if said else []
        yield from texts or ["None beyond those of any operator."]
