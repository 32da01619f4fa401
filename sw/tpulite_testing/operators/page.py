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

Which operators of a file the machine computes, in whose bits, and under which conditions. Written
by `python scripts/operators_page.py` from the code: **runs on** and the columns of the exactnesses
([whose bits](exactness.md)) are what became of {count} drawn cases of each operator, the conditions
at the end are all messages with which the code refuses. `tpulite inspect` says it of your file.

- **matrix unit**, **vector path**: the machine computes it there.
- **data movement**: the machine copies; whole channel blocks are views, which cost no cycle.
- **view**: a change of shape, which costs no cycle.
- **yes**: in all cases that were drawn; **n of m**: in so many, the others are the library's for a
  reason below (scales that are powers of two make a quarter of the cases, so functions whose last
  bit matters look worse here than in networks).
- **host**: numpy, without a library. **library**: LiteRT for TFLite files, ONNX Runtime for ONNX
  files, in their own bits.

All of it is about int8 and uint8. Operators of floats and of other integers, and operators that the
tables do not name, are the library's. `SPACE_TO_BATCH_ND` and `BATCH_TO_SPACE_ND` are the machine's
around convolutions, which get gaps instead; elsewhere they are the library's. In a network the host
also takes cheap neighbors along, where that saves crossings. `--exact bm1684x` defines
convolutions, depthwise and dense layers, and what rounds nothing.
"""

LEFT = {
    "ARG_MAX": "its result is 32 or 64 bits wide; numpy computes it",
    "L2_NORMALIZATION": "every pixel has a multiplier of its own, the root of a sum of squares",
    "LOG_SOFTMAX": "its fixed point takes logarithms of sums of 32 bits",
    "SVDF": "its states are 16 bits wide from one run to the next",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "its cells are 16 bits wide",
    "LayerNormalization": "sums of floats whose order is the library's",
    "InstanceNormalization": "sums of floats whose order is the library's",
    "ReduceMean": "every term of the sum is rounded to float32, in an order of the library's",
    "ReduceSum": "every term of the sum is rounded to float32, in an order of the library's",
}
"""Why operators that users look for are never the machine's in the bits of their library."""


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
            cells.append(", ".join(f"[{op}](#{op})" for op in linked))
            lines.append("| " + " | ".join(cells) + " |")
    forms = sorted(quantized_forms().items())
    names = ", ".join(f"`{name}` as `{plain}`" for name, plain in forms)
    text = f"Operators with a quantization of their own are counted with the plain ones: {names}."
    lines += ["", *textwrap.wrap(text, 120), "", "## What the machine leaves to others", ""]
    lines += [f"- `{name}`: {reason}." for name, reason in LEFT.items()]
    return "\n".join([*lines, "", *_conditions(conditions, users)]).rstrip() + "\n"


def _places(answers: Collection[Answer]) -> str:
    """Return where the machine computes an operator, if it does anywhere."""
    if answers and all(answer.free for answer in answers):
        return "nothing to do"
    found = {place: None for answer in answers for place in answer.places}
    return ", ".join(found) or "no part of it"


def _conditions(conditions: Conditions, users: Mapping[str, Mapping[str, None]]) -> Iterator[str]:
    """Yield the part of the page that says when operators are refused."""
    yield from ["## When the machine refuses", ""]
    yield "Then the operator is the library's, unless `--strict` forbids it. `…` stands for names"
    yield "and numbers of the case, EXACT for the exactness that was asked for."
    yield from ["", "### any operator", ""]
    yield from (f"- {text}" for text in conditions.common)
    for op in sorted(users):
        yield from ["", f"### {op}", "", f"{', '.join(users[op])}.", ""]
        texts = [f"- {text}" for text in conditions.of(op)]
        for user in users[op]:
            title, _, name = user.partition(" ")
            said = conditions.of_file(title.lower(), name.strip("`"), op)
            texts += [f"- {user}: {'; '.join(said)}"] if said else []
        yield from texts or ["Nothing but what is said of any operator."]
