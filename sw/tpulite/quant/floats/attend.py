"""Attention as exporters write it: two products and a softmax, and what is around them."""

import math
from dataclasses import dataclass, field

import numpy as np

from tpulite.quant.floats.expansion import Expansion

LOWEST = np.finfo(np.float32).min
"""What is added to scores of tokens that a token must not see."""

HEADS_APART, FLAT = 4, 3
"""Axes of a tensor with heads, [B, H, T, D], and of one whose channels hold them, [B, T, H D]."""


@dataclass
class Heads:
    """Queries, keys and values: [B, H, S, D], [B, K, T, D], [B, K, T, D]."""

    q: str
    k: str
    v: str
    scale: float  #: Factor of scores.
    copies: int = 1  #: Heads of queries for each head of keys.
    shape: tuple[int, ...] = ()  #: Shape of keys with copies, if there are copies: see Reshape.
    softcap: float = 0.0  #: Bound of scores; 0: none.
    added: list[str] = field(default_factory=list)  #: What is added to scores.


def attend(e: Expansion, heads: Heads, y: str = "") -> str:
    """Write attention; return the name of its result: [B, H, S, D]."""
    k, v = (_repeat(e, x, heads) for x in (heads.k, heads.v))
    scores = e.add("MatMul", heads.q, e.add("Transpose", k, perm=[0, 1, 3, 2]))
    if heads.scale != 1:
        scores = e.add("Mul", scores, e.constant(np.float32(heads.scale)))
    if heads.softcap:
        inner = e.add("Mul", scores, e.constant(np.float32(1 / heads.softcap)))
        scores = e.add("Mul", e.add("Tanh", inner), e.constant(np.float32(heads.softcap)))
    for each in heads.added:
        scores = e.add("Add", scores, each)
    return e.add("MatMul", e.add("Softmax", scores, axis=-1), v, y=y)


def _repeat(e: Expansion, x: str, heads: Heads) -> str:
    """Write a copy of each head for all that share it."""
    if heads.copies == 1:
        return x
    apart = e.add("Unsqueeze", x, e.constant(np.array([2])))
    y = e.add("Expand", apart, e.constant(np.array([1, 1, heads.copies, 1, 1])))
    return e.add("Reshape", y, e.constant(np.array(heads.shape)))


def apart(e: Expansion, x: str, heads: int, y: str = "") -> str:
    """Write [B, T, H D] as [B, H, T, D]."""
    x = e.add("Reshape", x, e.constant(np.array([0, 0, heads, -1])))
    return e.add("Transpose", x, y=y, perm=[0, 2, 1, 3])


def flat(e: Expansion, x: str, y: str) -> None:
    """Write [B, H, T, D] as [B, T, H D]."""
    x = e.add("Transpose", x, perm=[0, 2, 1, 3])
    e.add("Reshape", x, e.constant(np.array([0, 0, -1])), y=y)


def causal(e: Expansion, rows: int, columns: int, past: int, window: int = -1) -> str:
    """Write what is added so that a token sees itself and those before; ``window`` in all."""
    ahead = np.arange(columns) - np.arange(rows)[:, None] - past
    hidden = (ahead > 0) | ((ahead <= -window) & (window > 0))
    return e.constant(np.where(hidden, LOWEST, np.float32(0))[None, None])


def scale_of(e: Expansion, depth: int) -> float:
    """Return the factor of scores of heads of so many channels."""
    return float(e.flags.get("scale", 0) or 1 / math.sqrt(depth))


def joined(e: Expansion, past: int | None, new: str, present: int) -> str:
    """Write keys or values behind those of an input, if any; ``present`` is an output of both."""
    y = e.output(present)
    if past is not None and e.input(past):
        return e.add("Concat", e.input(past), new, y=y, axis=2)
    return e.add("Identity", new, y=y) if y else new
