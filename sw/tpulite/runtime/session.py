"""Sessions: a program placed in the DRAM of a device, ready to run again and again."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from tpulite.arch.config import COMMAND_BYTES
from tpulite.arch.isa import Engine
from tpulite.arch.memory import PAGE_BYTES, Window, WindowBinding
from tpulite.graph.graph import Graph, Node, Tensor
from tpulite.layout import pack_activations, unpack_activations
from tpulite.program import Program
from tpulite.runtime.device import Device, FaultReport, Job, Tracing, open_device


class EngineTrace(Protocol):
    """What one engine did in a run, command by command.

    Parameters
    ----------
    index : array of int
        Indices of the commands that it worked on.
    start, stop : array of int
        First cycle, and last cycle + 1, that counted for the command.
    cycles : array of int, one column for each :class:`tpulite.arch.registers.EngineState`
        Cycles in each state.
    """

    @property
    def index(self) -> np.ndarray: ...  # noqa: D102
    @property
    def start(self) -> np.ndarray: ...  # noqa: D102
    @property
    def stop(self) -> np.ndarray: ...  # noqa: D102
    @property
    def cycles(self) -> np.ndarray: ...  # noqa: D102


@dataclass(frozen=True, eq=False)
class Results:
    """Outputs and account of one run."""

    #: Mapping of str to ndarray, [m, channels]. Outputs by name; none if the run ended in a fault.
    outputs: Mapping[str, np.ndarray]
    #: Counters of the chip; none if the device has no clock.
    counters: Mapping[str, int] = field(default_factory=dict)
    fault: FaultReport | None = None  #: Why it stopped before its end.
    #: What each engine did, if the device records it.
    traces: Mapping[Engine, EngineTrace] = field(default_factory=dict)

    @property
    def output(self) -> np.ndarray:
        """The only output; RuntimeError if there is none, because of a fault."""
        if self.fault is not None:
            raise RuntimeError(f"The run has no output, it ended in {self.fault}")
        (output,) = self.outputs.values()
        return output

    @property
    def cycles(self) -> int | None:
        """Cycles from start to interrupt, if the device has a clock."""
        return self.counters.get("cycles")


_MEGABYTE = 1 << 20

_PERMISSIONS = {
    Window.CONSTANTS: {"read": True},
    Window.INPUT: {"read": True},
    Window.OUTPUT: {"write": True},
    Window.SCRATCH: {"read": True, "write": True},
}


class Session:
    """A program on a device.

    Compile, run and compare in four lines::

        program = compile_layers(layers, Config())
        results = Session(program, "rtl").run({"x": x})
        assert (results.output == run_layers(layers, {"x": x})["y"]).all()
        print(results.cycles)

    Parameters
    ----------
    program : Program
        The program.
    device : str or Device
        A device, or the name of one, which is opened with enough DRAM.
    base : int
        First address in DRAM that may be used. Programs that run in turn on one device lie one
        after the other: ``base=other.end``.
    options : object
        Passed on when a device is opened by name.

    Attributes
    ----------
    device : Device
        The device.
    job : Job
        Where program and windows lie.
    end : int
        First address behind them.

    Raises
    ------
    ValueError
        If the device has another configuration, or too little DRAM.
    """

    def __init__(
        self,
        program: Program,
        device: str | Device = "golden",
        *,
        base: int = 0,
        **options: object,
    ) -> None:
        self.program = program
        self.job, self.end = _place(program, base)
        if isinstance(device, str):
            megabytes = -(-self.end // _MEGABYTE)
            options = {"dram_bytes": megabytes * _MEGABYTE, "timing": program.memory} | options
            device = open_device(device, program.config, **options)
        if device.config != program.config:
            raise ValueError(
                f"the program is compiled for the configuration with hash "
                f"{program.config.hash:#010x}, and the device has {device.config.hash:#010x}"
            )
        if self.end > device.dram_bytes:
            raise ValueError(
                f"The program needs {self.end} bytes of DRAM, the device has {device.dram_bytes}"
            )
        self.device = device
        device.write(self.job.program_address, program.encode())
        if program.constants:
            device.write(self.job.windows[Window.CONSTANTS].base, program.constants)

    def record_traces(self, on: bool) -> None:
        """Let the device record what its engines do in the runs to come, if it can."""
        if isinstance(self.device, Tracing):
            self.device.trace = on

    def run(self, inputs: np.ndarray | Mapping[str, np.ndarray]) -> Results:
        """Write the inputs, run the program, read the outputs.

        After a fault the device is reset, so that it can run again.

        Parameters
        ----------
        inputs : ndarray or mapping of str to ndarray
            Inputs by name, in the shapes of their specs: a program of a batch has an axis in front
            and takes all its images at once. The array alone if there is only one input.

        Raises
        ------
        ValueError
            If inputs are missing or unknown, or dtype or shape of one are wrong.
        """
        specs = {spec.name: spec for spec in self.program.inputs}
        if isinstance(inputs, np.ndarray):
            inputs = dict.fromkeys(specs, inputs)
        if inputs.keys() != specs.keys():
            raise ValueError(f"Inputs must be {sorted(specs)}, not {sorted(inputs)}")
        config = self.program.config
        images = {
            name: pack_activations(np.asarray(inputs[name]), spec, config)
            for name, spec in specs.items()
        }
        for name, image in images.items():
            self.device.write(self._address(specs[name].window) + specs[name].offset, image)
        result = self.device.run(self.job)
        outputs = {}
        if result.fault is None:
            for spec in self.program.outputs:
                address = self._address(spec.window) + spec.offset
                image = self.device.read(address, spec.nbytes(config))
                outputs[spec.name] = unpack_activations(image, spec, config)
        elif not result.fault.hung:
            self.device.reset()
        traces = getattr(self.device, "traces", {})
        return Results(outputs, result.counters, result.fault, traces)

    def _address(self, window: Window) -> int:
        return self.job.windows[window].base


def _place(program: Program, base: int) -> tuple[Job, int]:
    """Place windows and commands one after the other, each at a page."""
    bindings = []
    for window in Window:
        base = -(-base // PAGE_BYTES) * PAGE_BYTES
        size = program.window_bytes[window]
        bindings.append(WindowBinding(base, size, **_PERMISSIONS[window]))
        base += size
    base = -(-base // PAGE_BYTES) * PAGE_BYTES
    size = len(program.encode())
    job = Job(base, size // COMMAND_BYTES, tuple(bindings), resident=program.resident)
    return job, base + size


def program_graph(program: Program) -> Graph:
    """Return a graph whose only operator is a program.

    Tensors are integers without a scale, in the shapes in which a
    :class:`~tpulite.runtime.session.Session` takes and gives them.
    """
    specs = (*program.inputs, *program.outputs)
    inputs, outputs = (
        tuple(spec.name for spec in side) for side in (program.inputs, program.outputs)
    )
    return Graph(
        name="program",
        tensors={spec.name: Tensor(spec.name, spec.shape, spec.dtype) for spec in specs},
        nodes=(Node("program", "program", inputs, outputs),),
        inputs=inputs,
        outputs=outputs,
        format="tflite",
    )
