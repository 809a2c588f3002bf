"""Taking a question in words apart: pieces of its text are recognized and taken, and nothing may be left over.

A question counts as understood only when every word of it was taken by something. That is what keeps a mapping without
a language model from guessing: one word too many and the question is handed back.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from typing import Any

from tools import ask_words

_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_DOUBLE = re.compile(r"(.*\S)\s*\([0-9]+\)")  # what `tools.sheet.unique_names` makes of a name that was taken


def plain(text: str) -> str:
    """The text with one form for each character, case and underscores aside."""
    return unicodedata.normalize("NFKC", text).casefold().replace("_", " ")


class Text:
    """The question in lower case with a mask of what was taken already."""

    def __init__(self, ask: str) -> None:
        self.text = plain(ask)
        self._free = [True] * len(self.text)

    def take(self, pattern: str) -> re.Match[str] | None:
        """Take the first place where the expression matches and nothing was taken yet."""
        for found in re.finditer(pattern, self.text):
            if found[0] and all(self._free[found.start() : found.end()]):
                self._free[found.start() : found.end()] = [False] * len(found[0])
                return found
        return None

    def take_span(self, start: int, end: int) -> bool:
        """Take a place by its bounds; False, and nothing happens, when it is empty or part of it was taken."""
        if start >= end or not all(self._free[start:end]):
            return False
        self._free[start:end] = [False] * (end - start)
        return True

    def rest(self) -> str:
        """What was not taken, without punctuation that means nothing."""
        left = "".join(c if free else " " for c, free in zip(self.text, self._free, strict=True))
        return re.sub(r"[\s?？。.,，、;；:：!！\"“”'‘’()（）]+", " ", left).strip()


def phrases(alternatives: str) -> str:
    """An expression for "a|b c|词": whole words for letters, anywhere for Chinese; longer alternatives first."""
    ordered = sorted(alternatives.split("|"), key=len, reverse=True)
    return "(?:" + "|".join(_phrase(one) for one in ordered) + ")"


def _phrase(words: str) -> str:
    body = r"\s+".join(re.escape(part) for part in words.split())
    before = r"(?<![a-z0-9])" if re.match(r"[a-z0-9]", words) else ""
    after = r"(?![a-z0-9])" if re.search(r"[a-z0-9]$", words) else ""
    return f"{before}{body}{after}"


@dataclass(kw_only=True)
class Mention:
    """A column that the question names, at a place in its text."""

    column: dict[str, Any]
    start: int
    end: int


@dataclass(kw_only=True)
class Mentions:
    """All columns that were named, and whether a name could mean more than one."""

    found: list[Mention] = field(default_factory=list[Mention])
    ambiguous: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    unclear: str = ""  # the first name in the text that could be more than one column


def take_columns(text: Text, columns: list[dict[str, Any]]) -> Mentions:
    """Take every column name: full names first, longer before shorter; then last words; then synonyms."""
    mentions = Mentions()
    for readings in (_full_names(columns), _last_words(columns), _synonyms(columns)):
        for phrase in sorted(readings, key=lambda one: (-len(one), one)):
            while found := text.take(phrases(phrase)):
                meant = readings[phrase]
                if len(meant) > 1:
                    mentions.ambiguous.extend(meant)
                    mentions.unclear = mentions.unclear or phrase
                else:
                    mentions.found.append(Mention(column=meant[0], start=found.start(), end=found.end()))
    mentions.found.sort(key=lambda mention: mention.start)
    return mentions


def name_words(name: str) -> str:
    """A column's name as it would be said: "orderDate" and "order_date" are "order date"."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", unicodedata.normalize("NFKC", name))
    return " ".join(re.sub(r"[_\-/.()\s]+", " ", spaced).casefold().split())


def variants(phrase: str) -> list[str]:
    """The phrase and its other grammatical number."""
    if not re.search(r"[a-z]$", phrase):
        return [phrase]
    if phrase.endswith("ies"):
        return [phrase, phrase[:-3] + "y"]
    if phrase.endswith("s") and not phrase.endswith("ss"):
        return [phrase, phrase[:-1]]
    plural = phrase[:-1] + "ies" if re.search(r"[^aeiou]y$", phrase) else phrase + "s"
    return [phrase, plural]


def is_among(name: str, words: str) -> bool:
    """Whether a column's name, or its last word, or for Chinese its end, is one of the words."""
    said = name_words(name)
    last = said.rpartition(" ")[2]
    options = words.split("|")
    return said in options or last in options or any(_CJK.search(o) and said.endswith(o) for o in options)


def _full_names(columns: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Names as they are spelled and as they are said; "revenue" also stands for "revenue (2)", its double."""
    names = {name_words(column["name"]) for column in columns}
    pairs = []
    for column in columns:
        spelled, said = " ".join(plain(column["name"]).split()), name_words(column["name"])
        said_so = [spelled, spelled.replace(" (", "("), *variants(said)]  # in Chinese no space stands before "（2）"
        pairs += [(variant, column) for variant in said_so]
        double = _DOUBLE.fullmatch(spelled)
        if double and name_words(double[1]) in names:
            pairs += [(variant, column) for variant in variants(name_words(double[1]))]
    return _collect(pairs)


def _last_words(columns: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """ "date" for "order date", when only one column ends so and none is called just that."""
    pairs = []
    for column in columns:
        said = name_words(column["name"])
        first, _space, last = said.rpartition(" ")
        if first and said.isascii() and not last.isdigit():  # the 2 of "revenue (2)" says nothing
            pairs += [(variant, column) for variant in variants(first if last == "name" else last)]
    return _collect(pairs)


def _synonyms(columns: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    pairs = []
    for group in ask_words.SYNONYMS:
        words = group.split("|")
        meant = [column for column in columns if name_words(column["name"]) in words]
        pairs += [(variant, column) for word in words for variant in variants(word) for column in meant]
    return _collect(pairs)


def _collect(pairs: Any) -> dict[str, list[dict[str, Any]]]:
    collected: dict[str, list[dict[str, Any]]] = {}
    for phrase, column in pairs:
        if phrase and column not in collected.setdefault(phrase, []):
            collected[phrase].append(column)
    return collected
