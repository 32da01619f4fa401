"""Language models ready to write: networks for tokens, a cache, and a position."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from tpulite.arch.config import Config
from tpulite.language.int4_llama import kept_int4_weights
from tpulite.language.prefill import Prefill, TokenNetwork, prefill_tokens
from tpulite.language.sampling import Sampling
from tpulite.language.weights import read_llama
from tpulite.needs import require_package
from tpulite.runtime.device import Device, open_device
from tpulite.runtime.model import Model
from tpulite.runtime.model_run import Runner, dram_bytes
from tpulite.runtime.states import States

POSITIONS = 256
"""Tokens that a cache holds unless more are asked for."""


@dataclass(frozen=True, eq=False)
class LanguageModel(TokenNetwork):
    """A model whose network computes the logits of one token, from it and a cache."""

    vocabulary: int  #: Tokens that it knows.
    #: Tokens that the cache holds; by default it keeps the last ones of a text of any length.
    positions: int | None = None
    prefill: Prefill | None = None  #: The network of prompts; without it they go token by token.

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

    def parts(self, tokens: Sequence[int]) -> Iterator[Sequence[int]]:
        """Yield tokens as they are read: those that go together, or one."""
        if self.prefill is None or len(tokens) == 1:
            return (tokens[i : i + 1] for i in range(len(tokens)))
        return self.prefill.parts(tokens, self.cycles)

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


@dataclass(frozen=True)
class Reading:
    """A run of a network of one token or of several ones."""

    tokens: int  #: Tokens that went into the cache.
    cycles: int  #: Its cycles.
    counted: bool  #: Whether the device counted them; else they are of the cycle model.
    last: bool  #: Whether it gave logits.


class Writer:
    """One text on a device. The cache outlives calls: the next prompt continues the text.

    Parameters
    ----------
    device : str or Device
        Where products run.

    Attributes
    ----------
    position : int
        Tokens in the cache.
    cache : States
        Keys and values by name: ``keys.0`` and so on.
    readings : list of Reading
        All runs.
    """

    def __init__(self, model: LanguageModel, device: str | Device = "golden") -> None:
        self.model = model
        self.position = 0
        self.readings: list[Reading] = []
        self.cache = States(model.network.graph)
        self._device = device

    @cached_property
    def _runner(self) -> Runner:
        return Runner(self.model.network, self._opened, state=self.cache)

    @cached_property
    def _prefill_runner(self) -> Runner:
        assert self.model.prefill is not None
        network = self.model.prefill.network
        return Runner(network, self._opened, state=self.cache, behind=self._runner)

    @cached_property
    def _opened(self) -> Device:
        """The device, with room for the programs of both networks."""
        if not isinstance(self._device, str):
            return self._device
        network, prefill = self.model.network, self.model.prefill
        programs = (*network.programs, *(() if prefill is None else prefill.network.programs))
        size, timing = dram_bytes(programs), network.options.timing
        return open_device(self._device, network.config, dram_bytes=size, timing=timing)

    @property
    def cycles(self) -> list[int]:
        """Cycles of each token that was read alone and gave logits, if the device counts them."""
        return [x.cycles for x in self.readings if x.counted and x.last and x.tokens == 1]

    def reset(self) -> None:
        """Begin a new text."""
        self.position = 0
        self.cache.reset()

    def read(self, *tokens: int) -> np.ndarray:
        """Take tokens into the cache, several at once if the model has a network for that.

        Parameters
        ----------
        *tokens : int
            One token or more.

        Returns
        -------
        array of float32, [vocabulary]
            Logits of the token behind them.

        Raises
        ------
        ValueError
            If there is no token, one is unknown, or they do not fit the rest of the cache; nothing
            is read then.
        """
        self._check(tokens)
        *before, last = self.model.parts(tokens)
        for part in before:
            self._read(part, last=False)
        return self.model.logits(self._read(last, last=True))

    def _read(self, part: Sequence[int], *, last: bool) -> Mapping[str, np.ndarray]:
        """Run the network of one token, or of several; return its outputs, if it is the last."""
        model, prefill = self.model, self.model.prefill
        if len(part) == 1:
            network, runner = model, self._runner
            given = model.given(part[0], self.position)
        else:
            assert prefill is not None
            network, runner = prefill, self._prefill_runner
            given = prefill.given(part, self.position)
        results = runner.run(given, outputs=last)
        self.position += len(part)
        if results.cycles is None:
            cycles = network.cycles if last else network.kept_cycles
        else:
            (cycles,) = results.cycles
        counted = results.cycles is not None
        self.readings.append(Reading(len(part), cycles, counted, last))
        return results.outputs

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
        self._check(prompt)
        return self._tokens(prompt, tokens, frozenset(stops), sampling or Sampling())

    def _tokens(
        self, prompt: Sequence[int], tokens: int, stops: frozenset[int], sampling: Sampling
    ) -> Iterator[int]:
        draws, unread = sampling.generator(), tuple(prompt)
        for _ in range(tokens):
            if self.position == self.model.positions:
                return
            token = sampling.choose(self.read(*unread), draws)
            if token in stops:
                return
            yield token
            unread = (token,)

    def _check(self, tokens: Sequence[int]) -> None:
        """Refuse tokens that cannot be read."""
        if not tokens:
            raise ValueError("the prompt is empty")
        for token in tokens:
            if not 0 <= token < self.model.vocabulary:
                raise ValueError(
                    f"token {token} is none of the {self.model.vocabulary:,} of the model"
                )
        if self.model.positions is None:
            return
        free, count = self.model.positions - self.position, len(tokens)
        if count > free:
            raise ValueError(
                f"the cache holds {self.model.positions} tokens and {free} are free, "
                f"not {count}: ask for more positions, or begin a new text"
            )


def load_language_model(
    path: Path,
    *,
    positions: int | None = None,
    int4: bool = False,
    texts: Sequence[Sequence[int]] = (),
    config: Config | None = None,
    cache: bool = False,
    progress: Callable[[str], None] | None = None,
) -> LanguageModel:
    """Read a model of the llama family; compile its networks for one token and for prompts.

    Parameters
    ----------
    path : Path
        A .gguf file, or a .safetensors file or a folder with its config.json.
    positions : int, optional
        Tokens that the cache is to hold; by default 256, or all that the model was trained for.
    int4 : bool
        Whether weights of products are rounded to 4 bits; else to 8.
    texts : sequence of sequence of int
        Tokens of texts that are to lose least by 4 bits
        (:meth:`~tpulite.language.tokenizer.Tokenizer.calibration`); without texts, the weights
        alone decide.
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

    narrow = kept_int4_weights(model, texts, cache=cache, progress=progress) if int4 else None

    def network(tokens: int) -> Model:
        with tempfile.TemporaryDirectory(prefix="tpulite-") as folder:
            file = Path(folder, "tokens.onnx")
            file.write_bytes(step_file(model, positions, tokens=tokens, int4=narrow))
            states = state_names(model.sizes.layers)
            loaded = Model.load(file, config=config, states=states)
            return loaded.compile(cache=cache, progress=progress)

    tokens = min(prefill_tokens(config or Config(), int4=int4), positions)
    prefill = Prefill(network(tokens), tokens) if tokens > 1 else None
    return LanguageModel(network(1), model.sizes.vocabulary, positions, prefill)
