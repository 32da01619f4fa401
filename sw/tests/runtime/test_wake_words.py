"""The wake words of pymicro-wakeword, frame by frame: outputs and states as LiteRT has them."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from tpulite.quant.partition import HostSegment
from tpulite.runtime.model import Model
from tpulite.runtime.model_run import Runner

PACKAGE, FRAMES = "pymicro_wakeword", 20

NAMES = ("alexa", "hey_jarvis", "hey_mycroft", "okay_nabu")

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec(PACKAGE) is None,
    reason="the wake words are missing (pip install --no-deps pymicro-wakeword)",
)


def network(name: str) -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None and spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "models" / f"{name}.tflite"


@pytest.mark.parametrize("name", NAMES)
def test_every_frame_has_the_librarys_bits(name):
    path = network(name)
    model = Model.load(path)
    assert not any(isinstance(segment, HostSegment) for segment in model.segments)
    (given,), (output,) = model.graph.inputs, model.graph.outputs
    assert model.graph.source is not None
    origins = model.graph.source.origins
    interpreter = Interpreter(
        str(path),
        experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
        experimental_preserve_all_tensors=True,
    )
    interpreter.allocate_tensors()
    # Loudness of 40 bands: a walk, of which the network makes more than one number.
    rng = np.random.default_rng(9)
    walk = np.cumsum(rng.normal(0, 30, (FRAMES, *model.graph.tensors[given].shape)), axis=0)
    runner, seen = Runner(model, "golden"), set()
    for frame in np.clip(walk - 60, -128, 127).astype(np.int8):
        interpreter.set_tensor(int(origins[given].key), frame)
        interpreter.invoke()
        due = interpreter.get_tensor(int(origins[output].key))
        assert runner.run({given: frame}).output.tobytes() == due.tobytes()
        for state in model.graph.states:
            kept = interpreter.get_tensor(int(origins[state.output].key))
            assert runner.state[state.name].tobytes() == kept.tobytes(), state.name
            seen.add(kept.tobytes())
    assert len(seen) > FRAMES
