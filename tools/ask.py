"""From a user's question in words to a typed question, without a language model, in English and Chinese.

A small vocabulary (`tools.ask_words`), the names in the profile and its most frequent values: nothing more. A mapping
is given only when every word of the question was understood and there is one way to understand it; else the answer is
`NotAnswerable` with the columns that were looked at. It never guesses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, cast

from tools import ask_filters, ask_words
from tools.ask_filters import Conditions
from tools.ask_match import Mention, Text, is_among, name_words, phrases, take_columns, variants
from tools.default_questions import chart_for, default_questions, time_part
from tools.errors import QuestionError
from tools.question_types import Aggregate, By, Direction, GroupKey, TypedQuestion
from tools.questions import validate
from tools.sheet import quoted

__all__ = ["NotAnswerable", "default_questions", "map_ask"]

NEEDS_A_MODEL: Final = "not answerable without a model"
MAX_LIMIT: Final = 1_000
UNSAID_LIMIT: Final = 10  # "top customers"
WHICH_LIMIT: Final = 5  # "which region has the highest revenue": the first, and whether others come close or tie

Column = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class NotAnswerable:
    """A question that could not be mapped. `detail` says why, for those who want to put it differently."""

    reason: str
    columns_looked_at: tuple[str, ...]
    detail: str = ""


class _NotClear(Exception):
    """One reading fails; the message says why, the columns are those the words touched."""

    def __init__(self, detail: str, columns: list[Column] | None = None) -> None:
        super().__init__(detail)
        self.detail, self.columns = detail, columns or []


def map_ask(text: str, profile: dict[str, Any], number: int = 1) -> TypedQuestion | NotAnswerable:
    """The typed question that these words ask, with the id "q<number>", or why there is none."""
    found: list[tuple[dict[str, Any], TypedQuestion]] = []
    failures: list[_NotClear] = []
    for sheet in profile["sheets"]:
        try:
            question = _Reading(text, sheet).question(text, number)
            found.append((sheet, cast(TypedQuestion, validate(question, profile))))
        except _NotClear as failure:
            failures.append(failure)
        except QuestionError as error:
            failures.append(_NotClear(error.message))
    named = [question for sheet, question in found if _names_sheet(text, sheet)]
    chosen = named if named else [question for _sheet, question in found]
    if len(chosen) == 1:
        return chosen[0]
    if chosen:
        failures = [_NotClear("it could be asked of more than one sheet")]
    looked_at = [column["name"] for failure in failures for column in failure.columns]
    looked_at = looked_at or [column["name"] for sheet in profile["sheets"] for column in sheet["columns"]]
    detail = failures[0].detail if failures else "the workbook has no sheet"
    return NotAnswerable(reason=NEEDS_A_MODEL, columns_looked_at=tuple(dict.fromkeys(looked_at)), detail=detail)


def _names_sheet(text: str, sheet: dict[str, Any]) -> bool:
    return any(Text(text).take(phrases(said)) for said in variants(name_words(sheet["name"])) if said)


@dataclass(kw_only=True)
class _Ranking:
    """ "top 5 customers", "which region": what is ranked is named right after `end`."""

    end: int
    start: int


class _Reading:
    """One attempt to read the words as a question to one sheet."""

    def __init__(self, ask: str, sheet: dict[str, Any]) -> None:
        self.sheet, self.text = sheet, Text(ask)
        self.columns: list[Column] = sheet["columns"]
        self.mentions: list[Mention] = []
        self.groups: list[GroupKey] = []
        self.conditions = Conditions()
        self.ranking: _Ranking | None = None
        self.limit: int | None = None
        self.direction: Direction = "desc"
        self.rows_meant = False
        self.counts_most = False
        self.per = False

    def question(self, ask: str, number: int) -> dict[str, Any]:
        """The question, when all words fit; raises _NotClear otherwise."""
        self._take_names()
        self.mentions = ask_filters.take_comparisons(self.text, self.mentions, self.conditions)
        self._take_ranking()  # before years: "top 2000" is no year
        ask_filters.take_periods(self.text, self.conditions)
        said = self._take_aggregate()
        self._take_times()
        self._take_groups()
        aggregate, measure = self._measure(said)
        self._finish()
        over_time = bool(self.groups) and self.groups[0]["by"] != "value" and self.limit is None
        return {
            "id": f"q{number}",
            "text": ask.strip(),
            "sheet": self.sheet["name"],
            "aggregate": aggregate,
            "measure": measure["name"] if measure else None,
            "group": self.groups,
            "filter": self.conditions.filters,
            "order": {"by": "group", "direction": "asc"} if over_time else {"by": "value", "direction": self.direction},
            "limit": self.limit,
            "chart": chart_for(self.groups) if self.ranking is None else "bar",
        }

    def _fail(self, detail: str) -> _NotClear:
        return _NotClear(detail, [mention.column for mention in self.mentions])

    def _take_names(self) -> None:
        names = take_columns(self.text, self.columns)
        self.mentions = names.found
        if names.ambiguous:
            listed = " and ".join(dict.fromkeys(quoted(column["name"]) for column in names.ambiguous))
            raise _NotClear(f"{quoted(names.unclear)} could be more than one column: {listed}", names.ambiguous)
        ask_filters.take_values(self.text, self.columns, self.conditions)
        if self.conditions.ambiguous:
            raise self._fail("a value in it stands in more than one column")
        # "the North region": the column is named only to say what North is.
        self.mentions = [m for m in self.mentions if m.column["name"] not in self.conditions.values or self._marked(m)]

    def _take_ranking(self) -> None:
        number = r"(?P<n>[0-9]+|" + "|".join([*ask_words.NUMBER_WORDS, *ask_words.NUMBER_WORDS_CJK]) + ")"
        of = r"\s*(?:个|名|位|大|家|种)?\s*(?:的)?"
        forms: list[tuple[str, Direction]] = [
            (rf"{phrases(ask_words.TOP)}\s+{number}(?![a-z0-9])", "desc"),
            (rf"{phrases(ask_words.BOTTOM)}\s+{number}(?![a-z0-9])", "asc"),
            (rf"{phrases(ask_words.TOP_CJK)}\s*{number}(?!\s*年){of}", "desc"),
            (rf"{phrases(ask_words.BOTTOM_CJK)}\s*{number}{of}", "asc"),
            (rf"(?:最高|最大|最多)的?\s*{number}{of}", "desc"),
            (rf"(?:最低|最小|最少)的?\s*{number}{of}", "asc"),
        ]
        for form, direction in forms:
            if found := self.text.take(form):
                self._rank(found.start(), found.end(), _count(found["n"]), direction)
                return
        if found := self.text.take(phrases("top")):
            self._rank(found.start(), found.end(), UNSAID_LIMIT, "desc")
        elif found := self.text.take(phrases(ask_words.WHICH)):
            self._take_which(found.start(), found.end())

    def _take_which(self, start: int, end: int) -> None:
        """ "which region has the highest revenue": groups from the first or from the last."""
        for words, direction in ((ask_words.MOST, "desc"), (ask_words.LEAST, "asc")):
            if found := self.text.take(phrases(words)):
                self._rank(start, end, WHICH_LIMIT, cast(Direction, direction))
                self.counts_most = found[0] in ask_words.OF_MOST.split("|")
                return
        raise self._fail("it asks which, but not of most or least")

    def _rank(self, start: int, end: int, limit: int, direction: Direction) -> None:
        if not 1 <= limit <= MAX_LIMIT:
            raise self._fail("the number of rows it asks for is out of bounds")
        self.ranking, self.limit, self.direction = _Ranking(start=start, end=end), limit, direction

    def _take_aggregate(self) -> Aggregate | None:
        self.text.take("[是为]多少")  # "is how much" at a sentence's end, which asks for the figure and counts nothing
        said = [name for name, words in ask_words.AGGREGATES.items() if self.text.take(phrases("|".join(words)))]
        if said in (["count", "sum"], ["count", "missing"], ["count", "outliers"], ["count_distinct", "count"]):
            said = [name for name in said if name != "count"] if said[1] != "sum" else ["count"]
        if len(said) > 1:
            raise self._fail("it asks for more than one figure")
        return cast(Aggregate, said[0]) if said else None

    def _take_times(self) -> None:
        """Grouping by a part of the date: "by month", "monthly", "每月", "over time"."""
        for by, (words, cjk) in ask_words.PERIODS.items():
            marks = f"{phrases(ask_words.GROUP_MARKS)}\\s+(?:the\\s+)?{phrases(words)}"
            marks_cjk = f"{phrases(ask_words.GROUP_MARKS_CJK)}\\s*{phrases(cjk)}"
            adjective = self.text.take(phrases(ask_words.PERIODIC[by]))
            found = adjective or self.text.take(marks) or self.text.take(marks_cjk)
            if found or self._ranks(words, cjk):
                self._group_by_date(cast(By, by))
                self.per |= adjective is not None or bool(found and re.match(phrases(ask_words.PER), found[0]))
        if self.text.take(phrases(ask_words.OVER_TIME)):
            column = self._only_date()
            self._group_by_date(time_part(column))

    def _ranks(self, words: str, cjk: str) -> bool:
        """Whether it is periods that are ranked: "which month", "top 3 months"."""
        if self.ranking is None:
            return False
        found = re.compile(rf"\s*{phrases(f'{words}|{cjk}')}").match(self.text.text, self.ranking.end)
        return found is not None and self.text.take_span(found.start(), found.end())

    def _group_by_date(self, by: By) -> None:
        column = self._only_date()
        self.mentions = [mention for mention in self.mentions if mention.column is not column]
        self.groups.append({"column": column["name"], "by": by})

    def _only_date(self) -> Column:
        named = [mention.column for mention in self.mentions if mention.column["role"] == "date"]
        dates = named or self._dates()
        if len({column["name"] for column in dates}) != 1:
            raise self._fail("it does not say by which date" if dates else "there is no column of dates")
        return dates[0]

    def _dates(self) -> list[Column]:
        return [column for column in self.columns if column["role"] == "date"]

    def _take_groups(self) -> None:
        left: list[Mention] = []
        group_end = -1
        for mention in self.mentions:
            joined = group_end >= 0 and re.fullmatch(_JOINED, self.text.text[group_end : mention.start]) is not None
            ranked = self._is_ranked(mention)
            if mention.column["role"] == "measure" and self.ranking is not None and not ranked:
                self.text.take_span(*self._mark_before(mention))  # "top 5 customers by amount"
                left.append(mention)
            elif ranked or joined or self._marked(mention):
                start, end = self._mark_before(mention)
                self.per |= re.match(phrases(ask_words.PER), self.text.text[start:end]) is not None
                self.text.take_span(start, end)
                self._group_by(mention)
                group_end = mention.end
            else:
                left.append(mention)
        self.mentions = left
        if self.ranking is not None and not self.groups:
            raise self._fail("it does not say what to rank")

    def _is_ranked(self, mention: Mention) -> bool:
        """Whether the column stands right after "top 5" or "which"."""
        end = self.ranking.end if self.ranking is not None else -1
        return 0 <= end <= mention.start and not self.text.text[end : mention.start].strip(" 的")

    def _mark_before(self, mention: Mention) -> tuple[int, int]:
        """The place of the word before a column that says to group by it, empty when there is none."""
        before = self.text.text[: mention.start]
        found = _MARK_AT_END.search(before)
        return (found.start(), found.end()) if found else (mention.start, mention.start)

    def _marked(self, mention: Mention) -> bool:
        start, end = self._mark_before(mention)
        return end > start

    def _group_by(self, mention: Mention) -> None:
        column = mention.column
        if column["role"] == "measure":
            raise self._fail("it groups by a column of figures")
        by: By = "day" if column["role"] == "date" else "value"
        self.groups.append({"column": column["name"], "by": by})

    def _measure(self, said: Aggregate | None) -> tuple[Aggregate, Column | None]:
        """What to compute, and of which column; the columns still named are what it can be of."""
        self._take_row_words()
        columns = [mention.column for mention in self.mentions]
        if len(columns) > 1:
            raise self._fail("it names more columns than it can be about")
        column = columns[0] if columns else None
        most = self.counts_most and said is None and (column is None or column["role"] != "measure")
        if said in ("count", "count_distinct") or most or (said is None and self.rows_meant and column is None):
            return self._counted(said or "count", column)
        if said == "missing":
            return said, column
        if column is None:
            raise self._fail("it does not say of which column")
        if said is None:
            return self._unsaid(column), column
        self._check_figure(said, column)
        return said, column

    def _check_figure(self, said: Aggregate, column: Column) -> None:
        if column["role"] != "measure" and not (said in ("min", "max") and column["role"] == "date"):
            raise self._fail("the column it names holds no figures")
        if said == "outliers" and self.groups:
            raise self._fail("it asks for unusual values by group")
        of_rows = is_among(column["name"], ask_words.NOT_ADDED_UP)
        if self.per and said in ("mean", "median", "min", "max") and not of_rows:
            raise self._fail("the figure could be of single rows or of totals")

    def _take_row_words(self) -> None:
        """Words for the rows themselves: "rows", or the sheet's own name where no column is called so."""
        sheet = [variant for variant in variants(name_words(self.sheet["name"])) if variant]
        while self.text.take(phrases("|".join([ask_words.ROW_WORDS, *sheet]))):
            self.rows_meant = True

    def _counted(self, said: Aggregate, column: Column | None) -> tuple[Aggregate, Column | None]:
        if column is None:
            if said == "count" and self.rows_meant:
                return "count", None
            raise self._fail("it does not say what to count")
        if said == "count" and column["role"] == "measure" and is_among(column["name"], ask_words.COUNTED_UP):
            return "sum", column  # "how many units were sold"
        if column["role"] in ("measure", "date", "empty"):
            raise self._fail("it counts a column of figures or dates")
        one_each = column["role"] == "identifier" and column["nulls"] == 0 and column["distinct"] == self.sheet["rows"]
        return ("count", None) if one_each and said == "count" else ("count_distinct", column)

    def _unsaid(self, column: Column) -> Aggregate:
        """ "revenue by region" is a sum; "price by region" may be anything."""
        name = column["name"]
        added = is_among(name, ask_words.ADDED_UP) and not is_among(name, ask_words.NOT_ADDED_UP)
        if column["role"] != "measure" or not added:
            raise self._fail("it does not say whether a total or an average is meant")
        return "sum"

    def _finish(self) -> None:
        if self.conditions.ambiguous:
            raise self._fail("a condition in it is not clear")
        ask_filters.finish(self.conditions, self._dates())
        if self.conditions.ambiguous:
            raise self._fail("it does not say which date its period is of")
        if self.ranking is not None:
            self.text.take(phrases("by"))  # "top 5 customers by total amount"
        while self.text.take(phrases(ask_words.FILLERS)) or self.text.take(phrases(ask_words.FILLERS_CJK)):
            pass
        rest = self.text.rest()
        if rest:
            raise self._fail(f"not understood: {rest}")


_JOINED: Final = r"\s*(?:,|and|和|与|及|以及|、|,\s*and)\s*(?:the\s+)?"
_MARK_AT_END: Final = re.compile(
    rf"(?:{phrases(ask_words.GROUP_MARKS)}\s+(?:the\s+|different\s+)?|{phrases(ask_words.GROUP_MARKS_CJK)}\s*)$"
)


def _count(text: str) -> int:
    return ask_words.NUMBER_WORDS.get(text) or ask_words.NUMBER_WORDS_CJK.get(text) or int(text)
