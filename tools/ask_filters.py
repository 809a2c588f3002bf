"""The conditions in a question in words: values of categories, years, quarters and months, comparisons with numbers."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from tools import ask_words
from tools.ask_match import Mention, Text, phrases
from tools.question_types import Filter, Op

_YEAR = r"(?<![0-9])(?P<y>(?:19|20)[0-9]{2})(?![0-9])"
_MONTHS = {name: number for number, names in enumerate(ask_words.MONTH_NAMES, 1) for name in names.split("|")}
_MONTH = r"(?<![a-z])(?P<m>" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")(?![a-z])"
_QUARTERS_CJK = {"一": 1, "二": 2, "三": 3, "四": 4, "1": 1, "2": 2, "3": 3, "4": 4}
_NUMBER = r"(?P<n>-?[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?)"


@dataclass(kw_only=True)
class Conditions:
    """The filters that were found, and whether something in them could be meant otherwise."""

    filters: list[Filter] = field(default_factory=list[Filter])
    values: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    periods: list[tuple[date, date]] = field(default_factory=list[tuple[date, date]])
    ambiguous: bool = False


def take_values(text: Text, columns: list[dict[str, Any]], into: Conditions) -> None:
    """Take values of categories that the profile shows, the longer first. A value of two columns is ambiguous."""
    meant: dict[str, list[tuple[str, str]]] = {}
    for column in columns:
        if column["role"] == "category" and column["type"] in ("text", "mixed"):
            for value in column["examples"]:
                said = " ".join(unicodedata.normalize("NFKC", value).casefold().replace("_", " ").split())
                if len(said) > 1 and not said.isdigit():
                    meant.setdefault(said, []).append((column["name"], value))
    for said in sorted(meant, key=lambda one: (-len(one), one)):
        while text.take(phrases(said)):
            if len(meant[said]) > 1:
                into.ambiguous = True
            name, value = meant[said][0]
            into.values.setdefault(name, []).append(value)


def take_periods(text: Text, into: Conditions) -> None:
    """Take a year, a quarter or a month of a year, as a first day and the first day after."""
    for pattern, read in _PERIODS:
        while found := text.take(pattern):
            into.periods.append(read(found))


def take_comparisons(text: Text, mentions: list[Mention], into: Conditions) -> list[Mention]:
    """Take "units over 10"; give back the mentions that are no part of one."""
    left = list(mentions)
    for op, words in ask_words.COMPARISONS.items():
        while found := text.take(rf"{phrases(words)}\s*{_NUMBER}"):
            before = text.text[: found.start()]
            mention = next(
                (m for m in left if re.fullmatch(r"\s*(?:(?:is|are|was|were|of)\s+)?", before[m.end :])), None
            )
            if mention is None or mention.column["role"] != "measure":
                into.ambiguous = True
                continue
            left.remove(mention)
            into.filters.append(_filter(mention.column["name"], op, _number(found["n"])))
    return left


def finish(into: Conditions, dates: list[dict[str, Any]]) -> None:
    """Turn values and periods into filters; a period needs exactly one column of dates, or it is ambiguous."""
    for name, values in into.values.items():
        unique = list(dict.fromkeys(values))
        into.filters.append(_filter(name, "in", unique) if len(unique) > 1 else _filter(name, "=", unique[0]))
    if len(into.periods) > 1 or (into.periods and len(dates) != 1):
        into.ambiguous = True
        return
    for first, after in into.periods:
        into.filters.append(_filter(dates[0]["name"], ">=", first.isoformat()))
        into.filters.append(_filter(dates[0]["name"], "<", after.isoformat()))


def _filter(column: str, op: str, value: Any) -> Filter:
    return {"column": column, "op": _OPS[op], "value": value}


_OPS: dict[str, Op] = {"=": "=", "in": "in", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def _number(text: str) -> int | float:
    plain = text.replace(",", "")
    return float(plain) if "." in plain else int(plain)


def _months(year: int, first: int, count: int) -> tuple[date, date]:
    after = first + count - 1
    return date(year, first, 1), date(year + after // 12, after % 12 + 1, 1)


def _year(found: re.Match[str]) -> tuple[date, date]:
    return _months(int(found["y"]), 1, 12)


def _quarter(found: re.Match[str]) -> tuple[date, date]:
    return _months(int(found["y"]), 3 * _QUARTERS_CJK[found["q"]] - 2, 3)


def _month(found: re.Match[str]) -> tuple[date, date]:
    month = _MONTHS.get(found["m"]) or int(found["m"])
    return _months(int(found["y"]), month, 1)


# The more exact first: a quarter and a month hold a year.
_PERIODS = (
    (rf"(?<![a-z])q(?P<q>[1-4])\s*(?:of\s+|/|-)?{_YEAR}", _quarter),
    (rf"{_YEAR}\s*[-/]?\s*q(?P<q>[1-4])(?![a-z0-9])", _quarter),
    (rf"{_YEAR}\s*年?\s*第?(?P<q>[一二三四1-4])季度?", _quarter),
    (rf"{_MONTH},?\s*(?:of\s+)?{_YEAR}", _month),
    (rf"{_YEAR}\s+{_MONTH}", _month),
    (rf"{_YEAR}\s*年\s*(?P<m>1[0-2]|0?[1-9])\s*月份?", _month),
    (rf"{_YEAR}[-/](?P<m>1[0-2]|0[1-9])(?![-/0-9])", _month),
    (rf"{_YEAR}(?![-/][0-9])\s*年?度?", _year),
)
