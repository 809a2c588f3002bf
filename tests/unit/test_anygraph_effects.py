"""What `--effects` can name, and what is counted there."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from experiments.anygraph.effects import FORMS, Effect, look, normal, parse_effects
from experiments.anygraph.errors import GraphError


def one(text: str) -> Effect:
    (effect,) = parse_effects([text])
    return effect


def test_each_form(tmp_path: Path) -> None:
    module = tmp_path / "shop.py"
    module.touch()
    assert one("a b=sql:sqlite:///x.db|select 1") == Effect(
        name="a b", kind="sql", where="sqlite:///x.db", what="select 1"
    )
    assert one("sql:postgresql://h/d?x=y|select count(*) from t").where == "postgresql://h/d?x=y"
    assert one(f"file:{tmp_path}/out.txt") == Effect(name="effects", kind="file", where=f"{tmp_path}/out.txt")
    assert one("t=https://h/x?y=1") == Effect(name="t", kind="http", where="https://h/x?y=1")
    assert one(f"o=python:{module}:orders") == Effect(name="o", kind="python", where=str(module), what="orders")


def test_without_names_they_are_numbered() -> None:
    assert [effect.name for effect in parse_effects(["file:a", "mails=file:b", "file:c"])] == [
        "effects 1",
        "mails",
        "effects 3",
    ]


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        ([], f"Say what is to be counted with --effects: {FORMS}."),
        (["mails"], f"--effects mails: give it as {FORMS}."),
        (["sql:select 1"], "--effects sql:select 1: give it as sql:DSN|SELECT …."),
        (["sql:sqlite:///x|delete from t"], "--effects sql:sqlite:///x|delete from t: give it as sql:DSN|SELECT …."),
        (["sql:x.db|select 1"], "--effects sql:x.db|select 1: the DSN begins with postgresql:// or sqlite:///."),
        (["python:shop.py"], "--effects python:shop.py: give it as python:file.py:function."),
        (["python:gone.py:f"], "--effects python:gone.py:f: there is no file gone.py."),
        (["a=file:x", "a=file:y"], "--effects: a is there twice; give each a name of its own."),
    ],
)
def test_what_is_wrong_is_said(texts: list[str], sentence: str) -> None:
    with pytest.raises(GraphError) as error:
        parse_effects(texts)
    assert str(error.value) == sentence


def test_the_thread_id_can_stand_anywhere() -> None:
    assert one("file:out/{thread_id}.txt").of_thread
    assert one("sql:sqlite:///x|select 1 where t = '{thread_id}'").of_thread
    assert not one("file:out.txt").of_thread


def test_lines_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "7.txt"
    effect = one(f"file:{tmp_path}/{{thread_id}}.txt")
    assert look(effect, "7") == []
    file.write_text('a\n\n{"n": 1}\n{broken\n')
    assert look(effect, "7") == ["a", {"n": 1}, "{broken"]


def test_rows_and_counts_of_sqlite(tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    effect = one(f"sql:sqlite:///{file}|select id, amount from refunds where thread = '{{thread_id}}'")
    assert look(effect, "7") == []  # nobody has made the file yet
    with closing(sqlite3.connect(file)) as shop, shop:
        shop.execute("create table refunds (id, amount, thread)")
        shop.executemany("insert into refunds values (?, ?, ?)", [(1, 2.5, "7"), (2, None, "7"), (3, 1, "8")])
    assert look(effect, "7") == [{"id": "1", "amount": "2.5"}, {"id": "2", "amount": None}]
    assert look(one(f"sql:sqlite:///{file}|select id from refunds"), "7") == ["1", "2", "3"]
    assert look(one(f"sql:sqlite:///{file}|select count(*) from refunds"), "7") == [None, None, None]


def test_what_cannot_be_counted_says_why(tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    sqlite3.connect(file).close()
    file.write_bytes(b"")
    with pytest.raises(GraphError) as error:
        look(one(f"refunds=sql:sqlite:///{file}|select 1 from refunds"), "7")
    said = "The effects 'refunds' cannot be counted: OperationalError: no such table: refunds."
    assert str(error.value) == said
    with pytest.raises(GraphError, match=r"The effects 'mails' cannot be counted: ConnectError: "):
        look(one("mails=http://127.0.0.1:9/x"), "7")


def test_a_list_or_a_count() -> None:
    assert normal(2) == [None, None]
    assert normal(("a", Path("b"))) == ["a", "b"]
    assert json.dumps(normal([{"b": 1, "a": 2}])) == '[{"a": 2, "b": 1}]'
    for wrong in (-1, True, "many", None):
        with pytest.raises(ValueError, match="neither a list nor a count"):
            normal(wrong)
