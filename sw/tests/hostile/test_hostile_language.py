"""Files of language models, encoders and states that others made: taken, or refused in a line."""

import json
import re
import struct

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is missing (pip install ai-edge-litert)")
pytest.importorskip("gguf", reason="gguf is missing (pip install gguf)")
pytest.importorskip("onnx", reason="ONNX is missing (pip install onnx)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is missing (pip install onnxruntime)")
pytest.importorskip("safetensors", reason="safetensors is missing (pip install safetensors)")
pytest.importorskip("tokenizers", reason="tokenizers is missing (pip install tokenizers)")

import onnx

from tpulite.golden.machine.dram import Dram
from tpulite.language.bert_weights import read_bert
from tpulite.language.tokenizer_file import open_tokenizer
from tpulite.language.weights import open_gguf, read_llama
from tpulite_testing.files.bert_files import BertFile
from tpulite_testing.files.llama_files import LlamaFile
from tpulite_testing.hostile.language import LANGUAGE, language_corpus
from tpulite_testing.hostile.mutants import mutant
from tpulite_testing.hostile.trials import guarded, try_mutant
from tpulite_testing.regress import thinned

pytest_plugins = ("tpulite_testing.command_line",)

_PART, _QUICK = 500, 6
_PARTS = thinned(
    [(kind, first) for kind in LANGUAGE for first in range(0, 20 * _PART, _PART)],
    *((kind, 0) for kind in LANGUAGE),
    reason="each part has mutants of all kinds; 10,000 of each file in all",
)


@pytest.fixture(scope="module")
def guard(tmp_path_factory):
    with guarded(tmp_path_factory.mktemp("hostile")) as guard:
        yield guard


@pytest.mark.parametrize(("kind", "first"), _PARTS)
def test_mutants_are_taken_or_refused_in_one_line(kind, first, guard):
    count = _PART if first else _QUICK
    tried = (try_mutant(number, guard, kind) for number in range(first, first + count))
    found = [str(trial) for trial in tried if trial.problem]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("kind", LANGUAGE)
def test_whole_files_are_taken(kind, guard):
    for whole in language_corpus()[kind]:
        for name, data in {**whole.beside, whole.name: whole.data}.items():
            (guard.folder / name).parent.mkdir(exist_ok=True)
            (guard.folder / name).write_bytes(data)
        words = [whole.name if word == "@" else word for word in whole.commands[0]]
        assert guard.run(*words) == (True, ""), words


def test_a_number_is_always_the_same_mutant():
    (whole,) = language_corpus()["gguf"]
    drawn = [mutant(whole.data, "gguf", np.random.default_rng(7)) for _ in range(2)]
    assert drawn[0] == drawn[1] != whole.data


def _gguf(tmp_path, *, counts=(0, 0), behind=b""):
    path = tmp_path / "x.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, *counts) + behind + bytes(64))
    return path


def _field(kind, value):
    return struct.pack("<Q", 1) + b"k" + struct.pack("<I", kind) + value


@pytest.mark.parametrize(
    ("counts", "behind", "why"),
    [
        ((0, 2**40), b"", "is a duplicate"),
        ((2**62, 0), b"", "has 0 axes"),
        ((0, 1), _field(9, struct.pack("<IQ", 0, 2**40)), "it goes on for 1,099,511,627,776 bytes"),
        ((0, 1), _field(9, struct.pack("<IQ", 9, 2**40)), "unknown type 9"),
        ((0, 2), _field(0, b"\0") * 2, "'k' is a duplicate"),
        (
            (1, 0),
            struct.pack("<Q", 1) + b"t" + struct.pack("<IQIQ", 1, 4, 0, 2**62),
            "'t' begins behind the end",
        ),
    ],
)
def test_headers_of_gguf_files_that_lie_are_refused(tmp_path, counts, behind, why):
    path = _gguf(tmp_path, counts=counts, behind=behind)
    with pytest.raises(ValueError, match=f"{re.escape(str(path))} is not a GGUF file.*{why}"):
        open_gguf(path)


def test_tensors_of_gguf_files_do_not_overlap(tmp_path):
    path = tmp_path / "x.gguf"
    LlamaFile().save_gguf(path)
    data = path.read_bytes()
    (up,) = re.finditer(rb"blk\.0\.ffn_up\.weight", data)
    place = up.end() + 4 + 16 + 4
    (down,) = re.finditer(rb"blk\.0\.ffn_down\.weight", data)
    other = down.end() + 4 + 16 + 4
    path.write_bytes(data[:place] + data[other : other + 8] + data[place + 8 :])
    with pytest.raises(ValueError, match=r"ffn_(up|down)\.weight' overlap"):
        open_gguf(path)


@pytest.mark.parametrize("value", [0, -1, 1.5, "2", True, None, [2], 2**40, float("nan")])
@pytest.mark.parametrize("key", ["num_hidden_layers", "hidden_size", "num_attention_heads"])
@pytest.mark.parametrize(("file", "read"), [(LlamaFile(), read_llama), (BertFile(), read_bert)])
def test_sizes_are_positive_integers(tmp_path, file, read, key, value):
    folder = tmp_path / "tiny"
    (file.save_safetensors if isinstance(file, LlamaFile) else file.save)(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {key: value}))
    with pytest.raises(ValueError, match=rf"{re.escape(str(folder))}: "):
        read(folder)


def test_a_count_of_layers_that_lies_costs_nothing(tmp_path):
    LlamaFile().save_safetensors(tmp_path / "tiny")
    file = tmp_path / "tiny/config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"num_hidden_layers": 2**31 - 1}))
    with pytest.raises(ValueError, match=r"'2\.attention_norm' are missing"):
        read_llama(tmp_path / "tiny")


def test_weights_are_finite(tmp_path):
    from safetensors.numpy import load_file, save_file

    file = tmp_path / "tiny/model.safetensors"
    LlamaFile().save_safetensors(file.parent)
    weights = load_file(file)
    weights["model.norm.weight"][3] = np.inf
    save_file(weights, file)
    with pytest.raises(ValueError, match="'norm' have elements that are not finite"):
        read_llama(file)


def _tokenizer(tmp_path, **changed):
    path = tmp_path / "tokenizer.json"
    BertFile().save_tokenizer(path, ["a lamp"])
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    return path


def _split(pattern):
    return {
        **{"type": "Split", "pattern": {"Regex": pattern}},
        **{"behavior": "Isolated", "invert": False},
    }


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(a|a)*b", r"((a*)b)*c", r"(?:[)]a{2,})+"])
def test_patterns_that_backtrack_are_refused(tmp_path, pattern):
    path = _tokenizer(tmp_path, pre_tokenizer=_split(pattern))
    with pytest.raises(ValueError, match=rf"{re.escape(str(path))} is no tokenizer: its pattern"):
        open_tokenizer(path)


@pytest.mark.parametrize(
    "pattern",
    [
        r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ],
)
def test_patterns_of_published_tokenizers_are_taken(tmp_path, pattern):
    tokens = open_tokenizer(_tokenizer(tmp_path, pre_tokenizer=_split(pattern)))
    assert tokens.encode("a", add_special_tokens=False).tokens == ["a"]


def test_replacements_do_not_grow_without_end(tmp_path):
    each = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
    path = _tokenizer(tmp_path, normalizer={"type": "Sequence", "normalizers": [each] * 40})
    with pytest.raises(ValueError, match=r"its replacements make up to 2\^40 characters of one"):
        open_tokenizer(path)


def test_templates_name_tokens_that_they_have(tmp_path):
    single = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}]
    template = {"type": "TemplateProcessing", "single": single, "pair": []}
    path = _tokenizer(tmp_path, post_processor=template | {"special_tokens": {}})
    with pytest.raises(ValueError, match=r"its template has the token '\[CLS\]', which it lacks"):
        open_tokenizer(path)


@pytest.mark.parametrize("pattern", [{"String": ""}, {"Regex": ""}, {"Regex": "a*"}])
def test_replacements_replace_something(tmp_path, pattern):
    each = {"type": "Replace", "pattern": pattern, "content": "aa"}
    with pytest.raises(ValueError, match="it replaces what is empty"):
        open_tokenizer(_tokenizer(tmp_path, normalizer=each))


def test_tokens_have_no_huge_numbers(tmp_path):
    model = json.loads(_tokenizer(tmp_path).read_text())["model"]
    model["vocab"]["lamp"] = 2**31
    with pytest.raises(ValueError, match="is no tokenizer: it has the token 2,147,483,648"):
        open_tokenizer(_tokenizer(tmp_path, model=model))


def test_windows_that_no_computer_holds_are_refused():
    with pytest.raises(ValueError, match=r"DRAM of 1,125,899,906,842,624 bytes"):
        Dram(2**50)


def test_what_search_says_of_an_encoder_begins_with_its_file(tpulite, tmp_path):
    whole = language_corpus()["encoder"][0]
    model = onnx.load_model_from_string(whole.data)
    for entry in model.graph.input:
        entry.type.tensor_type.shape.dim[1].dim_value = 2
    for name, data in {**whole.beside, "two.onnx": model.SerializeToString()}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    words = ("--model", "two.onnx", "--tokenizer", "bert/tokenizer.json")
    code, _, err = tpulite("search", "texts", "red", *words)
    assert (code, err) == (2, "tpulite: two.onnx: a text needs more than 2 tokens\n")


def test_tokenizers_neither_pad_nor_cut(tmp_path):
    fixed = {"strategy": {"Fixed": 2**40}, "direction": "Right", "pad_to_multiple_of": None}
    fixed |= {"pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}
    tokens = open_tokenizer(_tokenizer(tmp_path, padding=fixed))
    assert len(tokens.encode("a lamp", add_special_tokens=False).ids) == 2
