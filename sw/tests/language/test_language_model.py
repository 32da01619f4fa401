"""Each token is the library's, to the bit, alone or with others; what does not fit is refused."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gguf", reason="gguf is missing (pip install gguf)")
pytest.importorskip("tokenizers", reason="tokenizers is missing (pip install tokenizers)")
import onnxruntime

from tpulite.arch.config import Config
from tpulite.language.int4_llama import int4_weights
from tpulite.language.model import load_language_model
from tpulite.language.sampling import Sampling
from tpulite.language.step import state_names, step_file
from tpulite.language.tokenizer import read_tokenizer
from tpulite.language.weights import read_llama
from tpulite.runtime.golden_device import GoldenDevice
from tpulite.runtime.model_run import dram_bytes
from tpulite_testing.files.llama_files import LlamaFile

pytest_plugins = ("tpulite_testing.command_line",)

_FILE = LlamaFile()
_POSITIONS = 24
_PROMPT = [72, 101, 108, 108, 111]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    _FILE.save_gguf(path, "Q4_1")
    return path


@pytest.fixture(scope="module")
def model(path):
    return load_language_model(path, positions=_POSITIONS)


@pytest.fixture(scope="module")
def library(path):
    return library_of(step_file(read_llama(path), _POSITIONS))


def library_of(file):
    """ONNX Runtime on the file: logits after each token, and the cache."""
    session = onnxruntime.InferenceSession(file)
    names = [output.name for output in session.get_outputs()]
    shapes = {x.name: x.shape for x in session.get_inputs()}
    (together,) = shapes["token"]

    def run(tokens, padding=0):
        states = {name: np.zeros(shapes[name], np.float32) for name in state_names(2).values()}
        for position in range(0, len(tokens), together):
            part = tokens[position : position + together]
            token = np.array(part + [padding] * (together - len(part)))
            given = {"token": token, "position": np.array([position])}
            given |= {"count": np.array([len(part)])} if together > 1 else {}
            found = dict(zip(names, session.run(names, given | states), strict=True))
            states = {before: found[after] for after, before in state_names(2).items()}
            yield np.asarray(found["logits"])[0], states

    return run


def test_every_token_and_the_cache_are_the_librarys(model, library):
    tokens = np.random.default_rng(3).integers(0, 259, _POSITIONS).tolist()
    writer = model.writer()
    for token, (logits, states) in zip(tokens, library(tokens), strict=True):
        assert np.array_equal(writer.read(token), logits)
        for name, cache in states.items():
            assert np.array_equal(writer.cache[name], cache)


@pytest.fixture(scope="module")
def prompts(path, model):
    return library_of(step_file(read_llama(path), _POSITIONS, tokens=model.prefill.tokens))


@pytest.mark.parametrize("count", [_POSITIONS, 13, 3])
def test_a_prompt_and_the_cache_are_the_librarys(model, prompts, count):
    """The last run of 13 tokens has padding; nothing of it comes into the cache."""
    tokens = np.random.default_rng(6).integers(0, 259, count).tolist()
    writer = model.writer()
    found = writer.read(*tokens)
    *_, (logits, states) = prompts(tokens)
    runs = [min(8, count - start) for start in range(0, count, 8)]
    assert [each.tokens for each in writer.readings] == runs
    assert np.array_equal(found, logits)
    for name, cache in states.items():
        assert np.array_equal(writer.cache[name], cache)
        places = cache.any(axis=(0, 1) if name.startswith("keys") else (0, 2))
        assert places.tolist() == [True] * count + [False] * (_POSITIONS - count)


def test_padding_changes_nothing(prompts):
    (one, before), (other, after) = (next(prompts([1, 2, 3], padding)) for padding in (0, 258))
    assert np.array_equal(one, other)
    assert all(np.array_equal(cache, after[name]) for name, cache in before.items())


def test_tokens_see_those_before_them_alone(model, prompts):
    """One run that has later tokens, too, gives the cache of shorter runs."""
    tokens = list(range(40, 48))
    *_, (_, states) = prompts(tokens)
    *_, (_, fewer) = prompts(tokens[:5])
    for name, cache in states.items():
        keep = (..., slice(5)) if name.startswith("keys") else (slice(None), slice(5))
        assert np.array_equal(cache[keep], fewer[name][keep])


def test_a_prompt_gives_what_its_tokens_give_one_by_one(model):
    """But for the order of float sums, which the library chooses by the shapes of products."""
    tokens = np.random.default_rng(7).integers(0, 259, 21).tolist()
    together, alone = model.writer(), model.writer()
    found = together.read(*tokens)
    wanted = [alone.read(token) for token in tokens][-1]
    pairs = [(found, wanted), *((together.cache[x], alone.cache[x]) for x in alone.cache)]
    for one, other in pairs:
        error, signal = np.square(one - other).sum(), np.square(other).sum()
        assert error <= signal * 1e-6
    assert together.position == alone.position == len(tokens)


def test_both_networks_lie_on_one_device(model):
    programs = (*model.network.programs, *model.prefill.network.programs)
    device = GoldenDevice(Config(), dram_bytes=dram_bytes(programs))
    writer, other = model.writer(device), model.writer()
    for tokens in ([72], [101, 108, 108], [111], [32, 119]):
        assert np.array_equal(writer.read(*tokens), other.read(*tokens))
    head, last = (runner.sessions[-1] for runner in (writer._runner, writer._prefill_runner))
    assert head.job == last.job
    small = model.writer(GoldenDevice(Config(), dram_bytes=1 << 16))
    with pytest.raises(ValueError, match="the device has"):
        small.read(72, 101)


def test_tokens_go_together_where_that_takes_fewer_cycles(model):
    def parts(count):
        return [len(part) for part in model.parts(range(count))]

    assert model.prefill.kept_cycles < model.prefill.cycles
    assert model.cycles < model.prefill.cycles < 2 * model.cycles
    assert (parts(1), parts(2), parts(8), parts(9)) == ([1], [2], [8], [8, 1])
    assert parts(23) == [8, 8, 7]
    alone = replace(model, prefill=None)
    assert [len(part) for part in alone.parts(range(3))] == [1, 1, 1]


def test_a_short_cache_has_a_network_of_as_many_tokens(path):
    short = load_language_model(path, positions=3)
    assert short.prefill is not None and short.prefill.tokens == 3
    library = library_of(step_file(read_llama(path), 3, tokens=3))
    ((logits, _),) = library(_PROMPT[:3])
    assert np.array_equal(short.writer().read(*_PROMPT[:3]), logits)
    assert load_language_model(path, positions=1).prefill is None


def test_weights_of_4_bits_are_the_librarys_too(path, model):
    """Other parts of a token take cycles, too, so it takes more than half of them."""
    narrow = load_language_model(path, positions=_POSITIONS, int4=True, config=Config(int4=True))
    writer = narrow.writer()
    weights = int4_weights(read_llama(path), ())
    library = library_of(step_file(read_llama(path), _POSITIONS, int4=weights))
    for token, (logits, _) in zip(_PROMPT, library(_PROMPT), strict=True):
        assert np.array_equal(writer.read(token), logits)
    assert narrow.prefill is not None and narrow.prefill.tokens == 4
    prompts = library_of(step_file(read_llama(path), _POSITIONS, tokens=4, int4=weights))
    ((logits, _),) = prompts(_PROMPT[:4])
    assert np.array_equal(narrow.writer().read(*_PROMPT[:4]), logits)
    assert narrow.weight_bytes < 0.6 * model.weight_bytes
    assert narrow.cycles < 0.9 * model.cycles


def test_products_run_on_the_machine(model):
    assert len(model.network.programs) == 4 * 2 + 1
    listed = model.network.summary()
    products = [x for x in listed if x.operator == "MatMulInteger"]
    assert {x.where for x in products} == {"MXU"}
    assert 0 < model.network.host_macs < 0.2 * model.network.macs
    assert model.cycles > model.weight_bytes / 16


def test_logits_follow_the_floats(path, model):
    """The float network is computed for the whole text at once, rotated pairs side by side."""
    tokens = np.random.default_rng(4).integers(0, 259, 16).tolist()
    writer = model.writer()
    found = np.array([writer.read(token) for token in tokens])
    wanted = _floats(read_llama(path).weights, tokens)
    error, signal = np.square(found - wanted).sum(), np.square(wanted).sum()
    assert 10 * np.log10(signal / error) > 30  # weights of 8 bits, and nothing else of less than 15


def _floats(weights, tokens):
    def normal(x, gain):
        return x / np.sqrt(np.square(x).mean(axis=1, keepdims=True) + _FILE.epsilon) * gain

    def turned(x, heads):
        x = x.reshape(len(tokens), heads, _FILE.depth)
        pairs = np.stack(np.split(x, 2, axis=2), axis=-1)
        turn = _FILE.base ** (-np.arange(0, _FILE.depth, 2) / _FILE.depth)
        turn = np.exp(1j * np.arange(len(tokens))[:, None, None] * turn)
        made = (pairs[..., 0] + 1j * pairs[..., 1]) * turn
        return np.concatenate([made.real, made.imag], axis=2)

    x = weights["embedding"][tokens].astype(np.float64)
    for i in range(_FILE.layers):
        layer = {name: weights[f"{i}.{name}"] for name in ("query", "key", "value", "output")}
        y = normal(x, weights[f"{i}.attention_norm"])
        query = turned(y @ layer["query"].T, _FILE.heads)
        key = turned(y @ layer["key"].T, _FILE.key_heads)
        value = (y @ layer["value"].T).reshape(len(tokens), _FILE.key_heads, _FILE.depth)
        seen = np.empty_like(query)
        for head in range(_FILE.heads):
            shared = head * _FILE.key_heads // _FILE.heads
            scores = query[:, head] @ key[:, shared].T / np.sqrt(_FILE.depth)
            scores[np.triu_indices(len(tokens), 1)] = -np.inf
            shares = np.exp(scores - scores.max(axis=1, keepdims=True))
            seen[:, head] = shares / shares.sum(axis=1, keepdims=True) @ value[:, shared]
        x = x + seen.reshape(len(tokens), -1) @ layer["output"].T
        y = normal(x, weights[f"{i}.feed_norm"])
        gate = y @ weights[f"{i}.gate"].T
        x = x + (gate / (1 + np.exp(-gate)) * (y @ weights[f"{i}.up"].T)) @ weights[f"{i}.down"].T
    return normal(x, weights["norm"]) @ weights["head"].T


def test_a_text_goes_on_where_it_ended(model, library):
    writer = model.writer()
    first = list(writer.generate(_PROMPT, tokens=3))
    second = list(writer.generate([first[-1], 33, 32], tokens=3))
    whole = [*_PROMPT, *first, 33, 32, *second]
    logits = [int(found.argmax()) for found, _ in library(whole[:-1])]
    begin = len(_PROMPT) - 1
    assert logits[begin : begin + 3] == first
    assert logits[-3:] == second
    assert writer.position == len(whole) - 1
    writer.reset()
    assert list(writer.generate(_PROMPT, tokens=3)) == first


def test_the_text_ends_at_a_stop_and_where_the_cache_does(model):
    text = model.generate(_PROMPT, tokens=100)
    assert len(text) == _POSITIONS - len(_PROMPT) + 1
    stop = text[2]
    assert model.generate(_PROMPT, stops=[stop]) == text[: text.index(stop)]


def test_draws_follow_from_their_seed(model):
    def drawn(**settings):
        return model.generate(_PROMPT, tokens=8, sampling=Sampling(**settings))

    likely = drawn()
    assert drawn(temperature=1.0, seed=1) == drawn(temperature=1.0, seed=1)
    assert len({tuple(drawn(temperature=1.0, seed=seed)) for seed in range(4)}) == 4
    assert drawn(temperature=1.0, top_k=1, seed=1) == likely
    assert drawn(temperature=1.0, top_p=1e-9, seed=1) == likely


def test_draws_have_the_probabilities_of_the_logits():
    logits, count = np.log(np.array([0.5, 0.3, 0.15, 0.05], np.float32)), 4000
    for settings, expected in (
        ({}, [0.5, 0.3, 0.15, 0.05]),
        ({"top_k": 2}, [0.625, 0.375, 0, 0]),
        ({"top_p": 0.7}, [0.625, 0.375, 0, 0]),
    ):
        sampling = Sampling(temperature=1.0, **settings)
        draws = sampling.generator()
        found = np.bincount([sampling.choose(logits, draws) for _ in range(count)], minlength=4)
        for got, share in zip(found, expected, strict=True):
            assert abs(got - count * share) <= 5 * np.sqrt(count * share * (1 - share))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": -1.0}, "temperature must be at least 0, not -1"),
        ({"temperature": float("nan")}, "temperature must be at least 0, not nan"),
        ({"top_k": 0}, "top_k must be at least 1, not 0"),
        ({"top_p": 1.5}, "top_p must be above 0 and at most 1, not 1.5"),
    ],
)
def test_impossible_draws_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Sampling(**settings)


def test_what_does_not_fit_the_cache_is_refused_and_nothing_is_lost(model):
    writer = model.writer()
    text = list(writer.generate(_PROMPT, tokens=2))
    for prompt, message in (
        ([], "the prompt is empty"),
        ([1, 259], "token 259 is none of the 259"),
        ([-1], "token -1 is none"),
        ([1] * _POSITIONS, "holds 24 tokens and 18 are free, not 24"),
    ):
        with pytest.raises(ValueError, match=message):
            writer.generate(prompt)
    more = list(writer.generate(text[-1:], tokens=2))
    assert [*text, *more] == model.generate(_PROMPT, tokens=4)


def test_more_positions_than_trained_are_refused(path):
    for positions in (0, 65):
        with pytest.raises(ValueError, match=f"tiny has 1 to 64 positions, not {positions}"):
            load_language_model(path, positions=positions)


def test_text_becomes_bytes_and_marks(path):
    tokenizer = read_tokenizer(path)
    assert tokenizer.encode("Hi 42é") == list("Hi 42é".encode())
    assert tokenizer.decode([72, 258, 105]) == "Hi"
    begin, end = 257, 258
    asked = tokenizer.ask("Hi", "Be.")
    assert asked == [
        *(begin, *b"system\nBe.", end, *b"\n"),
        *(begin, *b"user\nHi", end, *b"\n"),
        *(begin, *b"assistant\n"),
    ]
    assert tokenizer.stops == (258,)


def test_chat_answers_in_the_shell(tpulite, path, model):
    words = ("--positions", str(_POSITIONS), "--tokens", "4", "--plain", "--mhz", "100")
    code, out, err = tpulite("chat", str(path), "Hello", *words)
    tokenizer = read_tokenizer(path)
    text = tokenizer.decode(model.generate(_PROMPT, tokens=4, stops=tokenizer.stops))
    assert code == 0
    assert out == f"{text}\n"
    err = " ".join(err.split())
    assert "tokens/s on golden" in err
    assert "prompt: 5 tokens, up to 5 at once: " in err
    assert f"{model.prefill.cycles / 5:,.0f} cycles a token (by the cycle model)" in err
    assert f"{model.cycles:,} cycles a token" in err
    assert "at 100 MHz" in err
    assert f"{model.network.crossings} tensors cross" in err


def test_chat_refuses_in_one_line(tpulite, tmp_path, path):
    bare = tmp_path / "bare.gguf"
    _FILE.save_gguf(bare, tokenizer=False)
    for words, message in (
        ((bare, "Hello"), "has no tokenizer"),
        ((tmp_path / "none.gguf", "Hello"), "none.gguf: No such file or directory"),
        (("smollm3", "Hello"), "smollm3: no such file or model (did you mean smollm2?)"),
        (("gemma", "Hello"), "gemma: no such file or model; choose from smollm2, story"),
        ((path, "Hello" * 13), "ask for more positions"),
        ((path, "Hello", "--positions", "65"), "has 1 to 64 positions, not 65"),
        ((path, ""), "the prompt is empty"),
    ):
        code, out, err = tpulite("chat", *map(str, words), "--plain", "--tokens", "1")
        assert (code, out) == (2, "")
        assert message in err and len(err.strip().splitlines()) == 1


def test_python_of_the_page_writes_a_text(tmp_path, monkeypatch, capsys):
    page = Path(__file__).resolve().parents[3] / "docs/language.md"
    block, *_ = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    (name,) = re.findall(r'Path\("(.*?)"\)', block)
    LlamaFile(positions=512).save_gguf(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    exec(block, {})
    assert len(capsys.readouterr().out) > 10
