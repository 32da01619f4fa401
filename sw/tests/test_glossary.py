"""The glossary defines the terms of the documents, each once and briefly."""

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"

VOCABULARY = """
    accumulator, activation, allocation, chunk, clock frequency, crossing, drain, feature map,
    float network, group, inferences/s, input range, k-tile, live range, MAC, MAC/byte, numerics,
    oracle, Pareto front, partial sum, pass, peak, placement, processing element, reference,
    requantize, roofline, skew, slice, strided slice, tensor, tile, token, unified buffer,
    utilization, vector, zero point
"""
"""Terms that the documents, messages and reports use for one thing each."""


def definitions() -> dict[str, str]:
    """Return the meaning of each term of the table; of two terms in a row, of each."""
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", (DOCS / "glossary.md").read_text(), re.MULTILINE)
    return {term: meaning for terms, meaning in rows[2:] for term in terms.split(", ")}


def test_the_vocabulary_is_defined():
    wanted = {" ".join(term.split()) for term in VOCABULARY.split(",")}
    assert wanted <= set(definitions())


def test_terms_that_pages_introduce_are_defined():
    """A page emphasizes a term where it explains it."""
    defined = {term.lower() for term in definitions()}
    missing = set()
    for page in (DOCS / "learn").glob("*.md"):
        text = page.read_text().replace("**", "")
        terms = {term.lower() for term in re.findall(r"\*([a-zA-Z][^*\n]+)\*", text)}
        missing |= {x for x in terms if not {x, x.removesuffix("s")} & defined}
    assert not missing


def test_terms_are_in_alphabetical_order_and_unique():
    terms = re.findall(r"^\| (.+?) \|", (DOCS / "glossary.md").read_text(), re.MULTILINE)[2:]
    assert terms == sorted(set(terms), key=str.lower)


def test_definitions_are_brief():
    long = {
        term: meaning
        for term, meaning in definitions().items()
        if len(re.findall(r"[.!?](?:\s|$)", meaning)) > 2 or not meaning.endswith(".")
    }
    assert not long
