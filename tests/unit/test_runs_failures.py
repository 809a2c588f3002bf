"""What each error means for a run, and which exit code it gives a command."""

from __future__ import annotations

import inspect
import sqlite3

import psycopg
import psycopg_pool
import pytest

import onward_ledger.errors as ledger_errors
from graph.errors import ActionFailed, NoUsableAnswer, OutcomeUnknown
from onward_ledger.database import MissingRight, SchemaTooNew, Unreachable
from runs import errors
from runs.errors import LimitReached
from runs.failures import meaning
from tests.support.runs_world import MemoryLedger
from tools.errors import DigestMismatch, InputError, QueryError


def fenced_postgres():
    error = psycopg.DatabaseError("stale epoch")
    error.sqlstate = "OW001"
    return error


def provider_error(status):
    error = RuntimeError("provider")
    error.status_code = status
    return error


class RateLimitError(Exception):
    pass


def caused(error, cause):
    error.__cause__ = cause
    return error


ACTION = MemoryLedger().put("00000000-0000-0000-0000-000000000001", "deliver")

MEANINGS = [
    (fenced_postgres(), "fenced"),
    (sqlite3.IntegrityError("stale epoch"), "fenced"),
    (ledger_errors.StaleEpoch("x", fence_epoch=3), "fenced"),
    (caused(RuntimeError("wrapped"), fenced_postgres()), "fenced"),
    (ledger_errors.FenceClosed("x"), "cancelled"),
    (OutcomeUnknown(ACTION), "person"),
    (ActionFailed(ACTION), "definite"),
    (NoUsableAnswer("x"), "definite"),
    (LimitReached("x", limit="budget"), "limit"),
    (Unreachable("x"), "transient"),
    (MissingRight("x"), "forbidden"),
    (SchemaTooNew("x"), "definite"),
    (ledger_errors.LedgerUnreachable("x"), "transient"),
    (ledger_errors.InProgress("x"), "transient"),
    (ledger_errors.NotApplied("x"), "transient"),
    (ledger_errors.ServiceFault("x"), "transient"),
    (ledger_errors.ObjectsUnreachable("x"), "transient"),
    (ledger_errors.ParamsConflict("x"), "parameters"),
    (ledger_errors.ObjectMissing("x"), "definite"),
    (psycopg.OperationalError("x"), "transient"),
    (psycopg_pool.PoolTimeout("x"), "transient"),
    (psycopg.errors.UniqueViolation("x"), "definite"),
    (sqlite3.OperationalError("database is locked"), "transient"),
    (sqlite3.IntegrityError("UNIQUE constraint failed"), "definite"),
    (ConnectionResetError("x"), "transient"),
    (TimeoutError("x"), "transient"),
    (QueryError("died", "x"), "transient"),
    (QueryError("memory", "x"), "definite"),
    (InputError("x"), "parameters"),
    (DigestMismatch("x"), "definite"),
    (provider_error(429), "transient"),
    (provider_error(503), "transient"),
    (provider_error(401), "forbidden"),
    (RateLimitError("x"), "transient"),
    (ValueError("x"), "definite"),
    (caused(ValueError("x"), ConnectionError("y")), "transient"),
]


@pytest.mark.parametrize(("error", "expected"), MEANINGS, ids=[f"{type(e).__name__}-{m}" for e, m in MEANINGS])
def test_what_an_error_means(error, expected):
    assert meaning(error) == expected


def test_a_circle_of_causes_ends():
    one, two = ValueError("1"), ValueError("2")
    one.__cause__, two.__cause__ = two, one
    assert meaning(one) == "definite"


def test_every_error_of_the_tree_has_a_documented_exit_code():
    tree = dict(
        line.replace("├──", "").replace("└──", "").replace("│", "").split()[:2]
        for line in inspect.getdoc(errors).splitlines()
        if line.startswith("    ") and line.split()[-1]
    )
    classes = {
        name: kind for name, kind in vars(errors).items() if inspect.isclass(kind) and issubclass(kind, errors.RunError)
    }
    assert {name: str(int(kind.exit_code)) for name, kind in classes.items()} == tree
    assert {int(code) for code in errors.Exit} == set(range(11))
