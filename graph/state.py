"""The checkpointed state: JSON values only.

LangGraph's serializer stores the module and class name of anything else, which would make import names on-disk data.
A test asserts it on the bytes of a real run. Documents stay out: a growing state is written whole at every
super-step, so the state holds keys and digests, and `tools.files` holds the bytes.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

from tools.files import Ref

Outcome = Literal["published", "rejected", "unverified"]


class InputRef(Ref):
    """The staged input file and the name its owner gave it."""

    name: str


class TableRef(Ref):
    """One sheet as a staged Parquet file."""

    sheet: str


class ResultRef(Ref):
    """The staged answer to one question."""

    question_id: str


class Unanswered(TypedDict):
    """A question that got no answer, why, and the columns that were looked at."""

    ask: str
    reason: str
    columns: list[str]


class Plan(TypedDict):
    """What will be computed. `language_model` is null when fixed rules made it."""

    title: str
    questions: list[dict[str, Any]]
    unanswered: list[Unanswered]
    language_model: str | None


class DraftObject(TypedDict):
    """One file of the draft at its final key."""

    name: str
    key: str
    digest: str
    size: int
    media_type: str


class Draft(TypedDict):
    """A saved draft. `digest` is the report digest: the SHA-256 of its canonical list of files."""

    revision: int
    digest: str
    objects: list[DraftObject]
    action_id: str


class Verification(TypedDict):
    """What `test` found: figures recomputed by another route, SQL re-executed, and every problem in words."""

    revision: int
    passed: bool
    recomputed: int
    reexecuted: int
    problems: list[str]


class Delivery(TypedDict):
    """The publication and the receipt that proves it."""

    action_id: str
    receipt: dict[str, Any]


# What a node adds to the state: some of State's keys.
Update: TypeAlias = dict[str, Any]


class State(TypedDict):
    """What a run knows. The input and the asks are given; every other part is written by one node.

    The graph's order guarantees that a part is there before a node reads it; the parts that a node must look for are
    marked NotRequired.
    """

    input: InputRef
    asks: list[str]
    tables: list[TableRef]  # plan
    profile: Ref  # plan
    plan: Plan  # plan
    cursor: int  # analyze: how many questions are done
    results: list[ResultRef]  # analyze
    unanswered: list[Unanswered]  # plan, analyze
    draft: NotRequired[Draft]  # write_draft
    failures: int  # test: failed verifications since a person last spoke
    verification: NotRequired[Verification]  # test
    decision: NotRequired[Literal["approve", "revise", "reject"] | None]  # deliver: what a person decided
    remarks: list[str]  # deliver: what a person asked to revise
    delivery: NotRequired[Delivery]  # deliver
    outcome: NotRequired[Outcome]  # test, deliver
