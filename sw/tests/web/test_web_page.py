"""The page of `make web` in a browser: answers and cycles of the RTL, bytes of dropped files."""

import asyncio
import base64
import json
import shutil
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from tpulite.arch.isa import disassemble
from tpulite.configs import named_config
from tpulite.export.network import layout_fields
from tpulite.models import CNN_DIGITS, MLP_DIGITS, DigitsTest
from tpulite.runtime.example import draw_example
from tpulite.runtime.model import Model
from tpulite.runtime.model_file import load_example, load_model_file, save_model
from tpulite_testing.chromium import CHROMIUM, open_page
from tpulite_testing.files.tflite_builder import Builder
from tpulite_web.chip import COMPILER
from tpulite_web.contents import page_facts
from tpulite_web.page import page_text

pytestmark = [
    pytest.mark.pages,
    pytest.mark.regress("builds the chip as WebAssembly, which takes a minute"),
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing (Debian: chromium)"),
    pytest.mark.skipif(
        shutil.which(COMPILER) is None, reason="Emscripten is missing (Debian: emscripten)"
    ),
]

RNG = np.random.default_rng(2024)
SIZE = "4x4"
CONFIG = named_config(SIZE)
RUN = "document.body.dataset.runs >= {}"


@cache
def text(size):
    return page_text(page_facts((size,)))


@pytest.fixture
def opened(tmp_path):
    """A page that has run the first digit of the test set."""

    @asynccontextmanager
    async def opening(width=1280, size=SIZE):
        (tmp_path / "index.html").write_text(text(size))
        async with open_page(tmp_path / "index.html", tmp_path / "profile") as page:
            await page.send(
                "Emulation.setDeviceMetricsOverride",
                **{"width": width, "height": 1400, "deviceScaleFactor": 1, "mobile": False},
            )
            await page.until(f"document.body && {RUN.format(2)}")
            await page.until("document.body.dataset.shown == state.cycle")
            yield page

    return opening


async def told(page):
    return json.loads(
        await page.evaluate(
            "JSON.stringify({...document.body.dataset, verdict: $('verdict').textContent, "
            "message: $('message').hidden ? '' : $('message').textContent})"
        )
    )


async def dropped(page, path):
    """Give a file to the page; return what it says of it."""
    before = int((await told(page)).get("files", 0))
    root = await page.send("DOM.getDocument")
    field = await page.send("DOM.querySelector", nodeId=root["root"]["nodeId"], selector="#file")
    await page.send("DOM.setFileInputFiles", files=[str(path)], nodeId=field["nodeId"])
    await page.until(f"document.body.dataset.files > {before}")
    return await told(page)


def save(path, model, **changes):
    example = draw_example(model)
    assert example is not None
    save_model(model, path, replace(example, **changes))


@pytest.mark.parametrize("size", [SIZE, "8x8"])
def test_a_digit_is_classified_in_the_cycles_of_the_native_simulator(opened, size):
    image = DigitsTest.load().images[:1]

    async def scenario():
        async with opened(size=size) as page:
            seen = [await told(page)]
            again = f"useDigits('{size}', 'mlp').then(sample)"
            await page.evaluate(f"turnOfSample = 0, {again}, 0")
            await page.until(RUN.format(4))
            return [*seen, await told(page)], page.events

    seen, events = asyncio.run(scenario())
    for page, path in zip(seen, (CNN_DIGITS, MLP_DIGITS), strict=True):
        model = Model.load(path, config=named_config(size))
        shape = model.graph.tensors[model.graph.inputs[0]].shape
        results = model.run(image.reshape(shape), device="rtl")
        assert results.cycles is not None
        assert page["cycles"] == str(results.cycles[0])
        assert page["class"] == str(results.classes[0]) == str(DigitsTest.load().labels[0])
        assert page["wrong"] == "0" and page["verdict"].startswith("All 1")
    # It needs no network.
    urls = [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]
    assert {url.partition(":")[0] for url in urls} <= {"file", "blob", "data"}
    assert not [event for event in events if event["method"] == "Runtime.exceptionThrown"]


STROKES = {
    "1": [[(128, 30), (128, 226)]],
    "0": [[(128 + 70 * np.sin(a), 128 - 96 * np.cos(a)) for a in np.linspace(0, 2 * np.pi, 16)]],
    "4": [[(150, 30), (60, 150), (200, 150)], [(160, 90), (160, 226)]],
}


def test_a_digit_that_is_drawn_is_classified(opened):
    async def scenario():
        async with opened() as page:
            box = json.loads(
                await page.evaluate("JSON.stringify($('pad').getBoundingClientRect())")
            )
            scale = box["width"] / 256
            found = {}
            for digit, strokes in STROKES.items():
                await page.evaluate("$('clear').click()")
                runs = int((await told(page))["runs"])
                for stroke in strokes:
                    points = [(box["x"] + x * scale, box["y"] + y * scale) for x, y in stroke]
                    kinds = ["mousePressed", *["mouseMoved"] * (len(points) - 1)]
                    for kind, (x, y) in [
                        *zip(kinds, points, strict=True),
                        ("mouseReleased", points[-1]),
                    ]:
                        await page.send(
                            "Input.dispatchMouseEvent",
                            **{"type": kind, "x": x, "y": y, "button": "left", "buttons": 1},
                            clickCount=1,
                        )  # fmt: skip
                await page.until(f"{RUN.format(runs + 1)} && !running && !again")
                found[digit] = (await told(page))["class"]
            return found

    assert asyncio.run(scenario()) == {digit: digit for digit in STROKES}


def network_with_a_part_on_the_cpu(tmp_path):
    b = Builder()
    x = b.input((1, 6, 6, 8), 0.05, -7)
    for _ in range(2):
        weights = RNG.integers(-127, 128, (8, 3, 3, 8)).astype("int8")
        x = b.conv(x, weights, weight_scale=0.01, scale=0.05, zero_point=-7)
        y = b.tensor(b.shape(x), 16 / 256, 127)
        x = b.operator("LOG_SOFTMAX", [x], [y], options_type="LogSoftmaxOptions")
    (tmp_path / "net.tflite").write_bytes(b.build(x))
    model = Model.load(tmp_path / "net.tflite", config=CONFIG)
    assert len(model.programs) == 2 and len(model.segments) == 4
    return model


def test_every_byte_of_a_dropped_network_is_compared(opened, tmp_path):
    pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
    whole, wrong, cut = (tmp_path / f"{name}.tpulite" for name in ("whole", "wrong", "cut"))
    model = network_with_a_part_on_the_cpu(tmp_path)
    save(whole, model)
    example = load_example(whole)
    assert example is not None
    values = {name: array.copy() for name, array in example.borders.items()}
    name = model.programs[1].outputs[0].name
    values[name].view(np.uint8).reshape(-1)[5] ^= 0x80
    save(wrong, model, borders=values)
    damaged = bytearray(whole.read_bytes())
    damaged[whole.read_bytes().index(b"programs/0.tpl") + 400] ^= 1
    cut.write_bytes(damaged)

    async def scenario():
        async with opened() as page:
            return [await dropped(page, path) for path in (whole, wrong, cut)]

    good, bad, refused = asyncio.run(scenario())
    size = sum(spec.nbytes(CONFIG) for program in model.programs for spec in program.outputs)
    split = "Parts of the network run on the CPU: their tensors come from the file."
    assert good["verdict"] == (f"All {size:,} output bytes are equal to the expected ones. {split}")
    native = load_model_file(whole).run(example.inputs, "rtl").cycles
    assert native is not None and good["cycles"] == str(native[0])
    assert bad["wrong"] == "1"
    assert bad["verdict"].startswith(f"1 of {size:,} output bytes differ: byte 5 of {name} is ")
    assert (
        "cut.tpulite is damaged: programs/0.tpl does not have its checksum." in refused["message"]
    )


def test_what_the_page_cannot_run_is_one_sentence(opened, tmp_path):
    save(tmp_path / "large.tpulite", Model.load(MLP_DIGITS))
    save_model(Model.load(MLP_DIGITS, config=CONFIG), tmp_path / "bare.tpulite")
    other = named_config("4x4,ub_rows=4096")
    save(tmp_path / "other.tpulite", Model.load(MLP_DIGITS, config=other))
    Model.load(MLP_DIGITS, config=CONFIG).programs[0].save(tmp_path / "program.tpulite")
    (tmp_path / "none.tpulite").write_bytes(MLP_DIGITS.read_bytes()[:1000])

    async def scenario():
        async with opened() as page:
            names = ("large", "bare", "other", "program", "none")
            return [(await dropped(page, tmp_path / f"{x}.tpulite"))["message"] for x in names]

    large, bare, other, program, none = asyncio.run(scenario())
    assert large.startswith("large.tpulite is compiled for a 16x16 array and this page has 4x4")
    assert bare.startswith("bare.tpulite carries no expected outputs")
    assert other.startswith("other.tpulite is compiled for another 4x4 machine than the one here")
    assert program.startswith("program.tpulite is a single program")
    assert none == "none.tpulite is not a .tpulite file: it is no ZIP archive."


def test_what_is_seen_is_what_an_element_computes(opened):
    """The sum that leaves an element is its product and the sum that left the one above before."""

    async def scenario():
        async with opened() as page:
            await page.evaluate(
                """(async () => {
                    const {size} = await wanted(0, 0);
                    const wrong = [], valid = [];
                    for (let t = 1400; t < 1700; t++) {
                        const [before, now] = await Promise.all([t - 1, t].map(async (c) =>
                            readFrame((await wanted(0, c >> 8)).seen, size, c & 255, 4)));
                        for (let r = 0; r < 4; r++) for (let k = 0; k < 4; k++) {
                            const e = now.element(r, k);
                            const above = r ? before.element(r - 1, k).sum : 0;
                            if (e.valid) valid.push(t);
                            if (e.sum !== e.weight * e.activation + above) wrong.push([t, r, k]);
                        }
                    }
                    window.found = [wrong.length, valid.length];
                })(), 0"""
            )
            await page.until("window.found")
            return await page.evaluate("window.found")

    wrong, valid = asyncio.run(scenario())
    assert wrong == 0 and valid > 1000


def test_stepping_back_shows_what_stepping_forth_has_shown(opened):
    texts = "$('engines').innerHTML + $('ports').innerHTML"
    there = f"{texts} + $('array').toDataURL() + $('buffer').toDataURL()"

    async def scenario():
        async with opened() as page:
            seen = {}
            for cycle in (1000, 1001, 20000, 1001, 1000, 25689, 1000):
                await page.evaluate(f"go({cycle})")
                await page.until(f"document.body.dataset.shown == {cycle}")
                seen.setdefault(cycle, set()).add(await page.evaluate(there))
            return {cycle: len(pictures) for cycle, pictures in seen.items()}, len(
                set().union(*seen.values())
            )

    assert asyncio.run(scenario()) == ({1000: 1, 1001: 1, 20000: 1, 25689: 1}, 4)


def test_commands_and_layouts_are_those_of_the_toolchain(opened):
    models = [Model.load(path, config=CONFIG) for path in (CNN_DIGITS, MLP_DIGITS)]
    commands = [command for model in models for command in model.programs[0].commands]
    specs = [spec for model in models for p in model.programs for spec in (*p.inputs, *p.outputs)]
    data = base64.b64encode(b"".join(command.encode() for command in commands)).decode()

    async def scenario():
        async with opened() as page:
            lines = await page.evaluate(
                f"Array.from({{length: {len(commands)}}}, (_, i) => "
                f"disassemble(decoded('{data}'), i, facts.isa))"
            )
            words = [
                await page.evaluate(f"layoutWords({json.dumps(spec.as_dict())}, 4, false)")
                for spec in specs
            ]
            return lines, words

    lines, words = asyncio.run(scenario())
    assert lines == [" ".join(disassemble(command).split()) for command in commands]
    for spec, found in zip(specs, words, strict=True):
        fields = layout_fields(spec, CONFIG, tensor=0, offset=0)
        flat = [
            number
            for value in fields.values()
            for number in (value.values() if isinstance(value, dict) else [value])
        ]
        assert found == flat


@pytest.mark.parametrize("width", [400, 1280])
def test_the_page_fits(opened, width):
    async def scenario():
        async with opened(width) as page:
            return await page.evaluate("document.documentElement.scrollWidth")

    assert asyncio.run(scenario()) <= width
