"""Language models ready to write: a network for one token, its cache, and a position."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from tpulite.arch.config import Config
from tpulite.golden.timing import program_cycles
from tpulite.language.sampling import Sampling
from tpulite.language.weights import read_llama
from tpulite.needs import require_package
from tpulite.runtime.device import Device
from tpulite.runtime.model import Model
from tpulite.runtime.model_run import Runner
from tpulite.runtime.states import States

__all__ = ["POSITIONS", "LanguageModel", "Writer", "load_language_model"]

POSITIONS = 256
"""Tokens that a cache holds unless more are asked for."""


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """A model whose network computes the logits of one token, from it and a cache."""

    #: The compiled network of :func:`tpulite.language.step.step_file`; its states are the cache.
    network: Model
    vocabulary: int  #: Tokens that it knows.
    #: Tokens that the cache holds; by default it keeps the last ones of a text of any length.
    positions: int | None = None

    @property
    def cycles(self) -> int:
        """Cycles of a token by the cycle model."""
        programs = self.network.programs
        return sum(program_cycles(program) for program in programs)

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights that DRAM delivers for each token."""
        return sum(len(program.constants) for program in self.network.programs)

    def given(self, token: int, position: int) -> dict[str, np.ndarray]:
        """Return the inputs of the network for a token."""
        values = {"token": token, "position": position}
        return {name: np.array([value], np.int64) for name, value in values.items()}

    def logits(self, outputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the logits among the outputs of the network, float32 [vocabulary]."""
        return outputs["logits"].reshape(-1)

    def writer(self, device: str | Device = "golden") -> "Writer":
        """Return a text that begins: a cache of its own on a device."""
        return Writer(self, device)

    def generate(
        self,
        prompt: Sequence[int],
        *,
        tokens: int = 64,
        stops: Sequence[int] = (),
        sampling: Sampling | None = None,
        device: str | Device = "golden",
    ) -> list[int]:
        """Return what follows a prompt; a text of its own, see :meth:`Writer.generate`."""
        writer = self.writer(device)
        return list(writer.generate(prompt, tokens=tokens, stops=stops, sampling=sampling))


class Writer:
    """One text on a device. The cache outlives calls: the next prompt continues the text.

    Parameters
    ----------
    model : LanguageModel
        The model.
    device : str or Device
        Where products run.

    Attributes
    ----------
    position : int
        Tokens in the cache.
    cycles : list of int
        Cycles of each token, where the device has a clock.
    """

    def __init__(self, model: LanguageModel, device: str | Device = "golden") -> None:
        self.model = model
        self.position = 0
        self.cycles: list[int] = []
        self._device = device

    @cached_property
    def _runner(self) -> Runner:
        return Runner(self.model.network, self._device)

    @property
    def cache(self) -> States:
        """Keys and values by name: ``keys.0`` and so on."""
        return self._runner.state

    def reset(self) -> None:
        """Begin a new text."""
        self.position = 0
        self._runner.state.reset()

    def read(self, token: int) -> np.ndarray:
        """Take a token into the cache; return the logits of the one behind it, [vocabulary].

        Raises
        ------
        ValueError
            If there is no such token, or the cache is full.
        """
        _check_token(token, self.model.vocabulary)
        self._check_room(1)
        results = self._runner.run(self.model.given(token, self.position))
        self.position += 1
        if results.cycles is not None:
            self.cycles += results.cycles
        return self.model.logits(results.outputs)

    def generate(
        self,
        prompt: Sequence[int],
        *,
        tokens: int = 64,
        stops: Sequence[int] = (),
        sampling: Sampling | None = None,
    ) -> Iterator[int]:
        """Read a prompt and yield the tokens that follow, as they come.

        The last token that is yielded has not been read: with it begins the next prompt.

        Parameters
        ----------
        prompt : sequence of int
            Tokens.
        tokens : int
            How many follow at most; fewer where the cache ends or a token of ``stops`` comes.
        stops : sequence of int
            Tokens that end the text; they are not yielded.
        sampling : Sampling, optional
            How tokens are chosen; by default always the most likely one.

        Raises
        ------
        ValueError
            If the prompt is empty, has an unknown token, or does not fit the rest of the cache;
            nothing is read then.
        """
        if not prompt:
            raise ValueError("the prompt is empty")
        for token in prompt:
            _check_token(token, self.model.vocabulary)
        self._check_room(len(prompt))
        chosen = sampling or Sampling()
        return self._tokens(list(prompt), tokens, frozenset(stops), chosen)

    def _tokens(
        self, prompt: list[int], tokens: int, stops: frozenset[int], sampling: Sampling
    ) -> Iterator[int]:
        draws = sampling.generator()
        for token in prompt[:-1]:
            self.read(token)
        last = prompt[-1]
        for _ in range(tokens):
            if self.position == self.model.positions:
                return
            last = sampling.choose(self.read(last), draws)
            if last in stops:
                return
            yield last

    def _check_room(self, count: int) -> None:
        if self.model.positions is None:
            return
        free = self.model.positions - self.position
        if count > free:
            raise ValueError(
                f"the cache holds {self.model.positions} tokens and {free} are free, "
                f"not {count}: ask for more positions, or begin a new text"
            )


def _check_token(token: int, vocabulary: int) -> None:
    if not 0 <= token < vocabulary:
        raise ValueError(f"token {token} is none of the {vocabulary:,} of the model")


def load_language_model(
    path: Path,
    *,
    positions: int | None = None,
    int4: bool = False,
    config: Config | None = None,
    cache: bool = False,
    progress: Callable[[str], None] | None = None,
) -> LanguageModel:
    """Read a model of the llama family and compile its network for one token.

    Parameters
    ----------
    path : Path
        A .gguf file, or a .safetensors file or a folder with its config.json.
    positions : int, optional
        Tokens that the cache is to hold; by default 256, or all that the model was trained for.
    int4 : bool
        Whether weights of products are rounded to 4 bits; else to 8.
    config : Config, optional
        The machine; 16 x 16 multipliers by default.
    cache : bool
        Whether to look for programs in the user's cache, and to keep them there.
    progress : callable, optional
        Called with a line of text at every step.

    Raises
    ------
    OSError
        If there is no such file.
    ValueError
        If it is no such model, it was not trained for so many positions, or a package is missing.
    """
    for package in ("onnx", "onnxruntime"):
        require_package(package, "onnx", "A language model")
    from tpulite.language.step import state_names, step_file  # late: it needs onnx

    model = read_llama(path)
    most = model.sizes.positions
    positions = min(POSITIONS, most) if positions is None else positions
    if not 1 <= positions <= most:
        raise ValueError(f"{model.name} has 1 to {most:,} positions, not {positions}")
    with tempfile.TemporaryDirectory(prefix="tpulite-") as folder:
        file = Path(folder, "token.onnx")
        file.write_bytes(step_file(model, positions, int4=int4))
        states = state_names(model.sizes.layers)
        network = Model.load(file, config=config, states=states).compile(
            cache=cache, progress=progress
        )
    return LanguageModel(network, model.sizes.vocabulary, positions)
