"""Short stories by a grammar: who is in them, what is lost, found, given, and what comes of it.

A hero, a friend and a thing are drawn once and recur for the rest of a story, with their pronouns,
kinds and colors, so whoever continues one must look back. Nothing is taken from any text.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["END", "RECURRING", "encode", "held_out", "perplexity", "story", "vocabulary"]

END = "<end>"
"""Token between stories: what the first one begins behind, too."""

_HELD_OUT = 1_000_003
"""Seed of stories that are put aside."""

_WOMEN = ("Anna", "Ella", "Ida", "Lily", "Mia", "Nora", "Rosa", "Zoe")
_MEN = ("Ben", "Finn", "Hugo", "Leo", "Max", "Otto", "Sam", "Tom")
_ANIMALS = (
    *("bear", "cat", "dog", "duck", "fox", "frog", "goat", "hen"),
    *("mouse", "pig", "rabbit", "sheep"),
)
_NATURES = ("big", "brave", "clever", "kind", "little", "shy", "strong", "young")
_HOMES = ("cave", "house", "hut", "tower")
_PLACES = ("farm", "forest", "garden", "hill", "lake", "meadow", "river", "sea", "village")
_THINGS = ("ball", "bell", "boat", "book", "drum", "hat", "kite", "lamp", "ring", "shell")
_COLORS = ("black", "blue", "golden", "green", "red", "silver", "white", "yellow")
_HIDING = ("bench", "bridge", "bush", "stone", "table", "tree")
_FOODS = ("bread", "cake", "cheese", "honey", "jam", "milk", "soup")
_WEATHERS = ("cloudy", "cold", "rainy", "sunny", "warm", "windy")
_TIMES = ("morning", "evening", "afternoon")
_TOOLS = ("ladder", "rope", "stick")

RECURRING = (_WOMEN + _MEN, _ANIMALS, _THINGS, _COLORS, _HIDING, _FOODS, _TOOLS)
"""Sets of words of which a story has one or two, and mentions them again."""


@dataclass(frozen=True)
class _Who:
    """Somebody: a name, a kind, and the words that stand for the name."""

    name: str
    kind: str
    he: str
    his: str
    him: str


class _Teller:
    """One story: what was drawn for it, and its sentences in turn."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self.hero = self._somebody(())
        self.friend = self._somebody((self.hero.name, self.hero.kind))
        self.nature, self.thing = self.one(_NATURES), self.one(_THINGS)
        self.color = self.one(_COLORS)
        self.place, self.other = self._two(_PLACES)
        self.food = self.one(_FOODS)

    def one(self, words: Sequence[str]) -> str:
        """Draw a word or a sentence."""
        return words[int(self._rng.integers(len(words)))]

    def _two(self, words: Sequence[str]) -> list[str]:
        first, second = self._rng.choice(len(words), 2, replace=False)
        return [words[int(first)], words[int(second)]]

    def _somebody(self, taken: Sequence[str]) -> _Who:
        woman = bool(self._rng.integers(2))
        names = [x for x in (_WOMEN if woman else _MEN) if x not in taken]
        kinds = [x for x in _ANIMALS if x not in taken]
        words = ("she", "her", "her") if woman else ("he", "his", "him")
        return _Who(self.one(names), self.one(kinds), *words)

    def called(self, who: _Who) -> str:
        """Draw what somebody is called by the teller."""
        return self.one((who.name, f"the {who.kind}"))

    def opening(self) -> Iterator[str]:
        """Say who the hero is and where."""
        hero, kind = self.hero, f"{self.nature} {self.hero.kind}"
        yield self.one(
            (
                f"once upon a time there was a {kind} named {hero.name} .",
                f"once there was a {kind} . {hero.his} name was {hero.name} .",
                f"{hero.name} was a {kind} .",
            )
        )
        home = self.one(_HOMES)
        yield self.one(
            (
                f"{hero.name} lived in a {home} near the {self.place} .",
                f"{hero.he} lived in a small {home} by the {self.place} .",
                f"every day {hero.he} played near the {self.place} .",
            )
        )

    def meeting(self) -> Iterator[str]:
        """Let the friend come."""
        hero, friend = self.hero, self.friend
        yield self.one(
            (
                f"then {hero.he} met {friend.name} the {friend.kind} .",
                f"on the way {hero.he} met a {friend.kind} named {friend.name} .",
                f"soon {friend.name} the {friend.kind} came by .",
            )
        )

    def ending(self) -> Iterator[str]:
        """Say how it ended."""
        hero, friend = self.hero, self.friend
        yield self.one(
            (
                f"from that day on {hero.name} and {friend.name} were best friends .",
                f"the {hero.kind} and the {friend.kind} laughed and went home together .",
                f'" thank you , {friend.name} , " said {self.called(hero)} . '
                f"{hero.he} was very happy .",
                f"that night {hero.name} the {hero.kind} slept very well .",
            )
        )

    def lost(self) -> Iterator[str]:
        """Lose a thing and find it."""
        hero, friend, what = self.hero, self.friend, f"{self.color} {self.thing}"
        spot = self.one(_HIDING)
        yield self.one(
            (
                f"one {self.one(_TIMES)} {hero.name} lost {hero.his} {what} .",
                f"{hero.name} had a {what} , but one day it was gone .",
            )
        )
        yield f"{self.one(('sad', 'worried'))} , {hero.he} looked for it in the {self.other} ."
        yield from self.meeting()
        yield f'" have you seen my {what} ? " asked {self.called(hero)} .'
        yield self.one(
            (
                f'" yes , it is under the {spot} , " said {self.called(friend)} .',
                f'" look under the {spot} , " said {friend.name} .',
            )
        )
        yield f"they ran to the {spot} and there was the {what} ."

    def stuck(self) -> Iterator[str]:
        """Help a friend who cannot get out."""
        hero, friend, tool = self.hero, self.friend, self.one(_TOOLS)
        time = f"{self.one(_WEATHERS)} {self.one(_TIMES)}"
        yield f"one {time} {hero.name} walked to the {self.other} ."
        yield f'" help ! " cried somebody . it was {friend.name} the {friend.kind} .'
        yield self.one(
            (
                f"{friend.he} had fallen into a deep hole .",
                f"{friend.he} sat on a high tree and could not get down .",
            )
        )
        yield f'" I will help you , " said {self.called(hero)} .'
        yield f"{hero.he} ran home and brought a long {tool} ."
        yield f"with the {tool} {self.called(friend)} was soon safe ."
        yield f"{friend.he} gave {self.called(hero)} a {self.color} {self.thing} ."

    def shared(self) -> Iterator[str]:
        """Share food with somebody who has none."""
        hero, friend, food = self.hero, self.friend, self.food
        yield self.one(
            (
                f"one {self.one(_WEATHERS)} day {hero.name} made some {food} .",
                f"one day {hero.name} found some {food} in the {self.other} .",
            )
        )
        yield from self.meeting()
        yield f"{self.called(friend)} was {self.one(('hungry', 'tired'))} and had nothing to eat ."
        yield f'" may I have some {food} ? " asked {self.called(friend)} .'
        yield self.one(
            (
                f'{hero.name} thought for a while . " yes , " {hero.he} said .',
                f'" yes , " said {self.called(hero)} , " the {food} is for you , too . "',
            )
        )
        yield f"they sat down and ate the {food} together ."

    def given(self) -> Iterator[str]:
        """Find a gift for a birthday."""
        hero, friend, what = self.hero, self.friend, f"{self.color} {self.thing}"
        yield f"{hero.his} best friend was {friend.name} the {friend.kind} ."
        yield f"one day it was the birthday of {friend.name} ."
        yield f"{hero.name} wanted to give {friend.him} a {self.thing} ."
        yield f"{hero.he} went to the {self.other} and found a {what} there ."
        yield f'" this is for you , " said {self.called(hero)} to {friend.name} .'
        yield f'" a {what} ! " cried the {friend.kind} . {friend.he} loved it .'

    def heard(self) -> Iterator[str]:
        """Be afraid of what turns out to be a friend."""
        hero, friend, what = self.hero, self.friend, f"{self.color} {self.thing}"
        yield f"one night {hero.name} heard a noise in the {self.other} ."
        yield f"{hero.he} was afraid , but {hero.he} went out ."
        yield f'" who is there ? " asked {self.called(hero)} .'
        yield f'" it is me , {friend.name} , " said a {friend.kind} .'
        yield f'" I am looking for my {self.thing} . "'
        yield f"they looked under every {self.one(_HIDING)} ."
        yield f"at last {self.called(hero)} saw the {what} and gave it to {friend.him} ."

    def told(self) -> Iterator[str]:
        """Yield the sentences of a story."""
        yield from self.opening()
        plots = (self.lost, self.stuck, self.shared, self.given, self.heard)
        yield from plots[int(self._rng.integers(len(plots)))]()
        yield from self.ending()


def story(rng: np.random.Generator) -> list[str]:
    """Return the words and marks of a story, behind :data:`END` and before it."""
    words = " ".join(_Teller(rng).told()).split()
    return [END, *words, END]


def vocabulary(stories: int = 4000) -> list[str]:
    """Return all words and marks in order, :data:`END` first."""
    rng = np.random.default_rng(0)
    return [END, *sorted({word for _ in range(stories) for word in story(rng)} - {END})]


def encode(words: Sequence[str], known: Sequence[str]) -> list[int]:
    """Return tokens: places of words in the vocabulary."""
    places = {word: i for i, word in enumerate(known)}
    return [places[word] for word in words]


def held_out(known: Sequence[str], count: int = 32) -> list[list[int]]:
    """Return stories that neither trained nor calibrated the model that comes with tpulite."""
    rng = np.random.default_rng(_HELD_OUT)
    return [encode(story(rng), known) for _ in range(count)]


def perplexity(logits: np.ndarray, tokens: ArrayLike) -> float:
    """Return e to the mean cross entropy of tokens, given logits [n, vocabulary] of each."""
    exact = logits.astype(np.float64)
    most = exact.max(axis=1)
    sums = most + np.log(np.exp(exact - most[:, None]).sum(axis=1))
    return float(np.exp((sums - exact[np.arange(len(exact)), np.asarray(tokens)]).mean()))
