"""Every error of every layer ends a command with one code and one plain sentence."""

import pytest

from onward_ledger import errors as ledger_errors
from onward_ledger.database import MissingRight, SchemaTooNew, Unreachable
from runs import errors as run_errors
from runs.cli import main
from runs.commands.failures import explain
from runs.errors import Exit
from tools.errors import InputError, QueryError

CASES = [
    (run_errors.RunNotFound("There is no run 1."), 3),
    (run_errors.UsageError("No."), 2),
    (run_errors.AmbiguousRun("Several."), 2),
    (run_errors.DrivenElsewhere("Driven.", pid=1, host="h", epoch=1), 4),
    (run_errors.WaitingForPerson("Waits."), 5),
    (run_errors.HandedBack("Stopped."), 6),
    (run_errors.LimitReached("Late.", limit="deadline"), 7),
    (run_errors.UnknownOutcome("Who knows."), 8),
    (run_errors.ServiceUnreachable("Away."), 9),
    (ledger_errors.NotFound("No action."), 3),
    (ledger_errors.DecisionConflict("Decided."), 4),
    (ledger_errors.ParamsConflict("Other."), 4),
    (ledger_errors.InProgress("Now."), 4),
    (ledger_errors.LedgerUnreachable("Away."), 9),
    (ledger_errors.ObjectsUnreachable("Away."), 9),
    (ledger_errors.Unauthorized("Token."), 9),
    (ledger_errors.BadRequest("Field."), 2),
    (ledger_errors.LedgerError("What."), 1),
    (Unreachable("no route"), 9),
    (MissingRight("GRANT it"), 1),
    (SchemaTooNew("newer"), 4),
    (InputError("Not a workbook."), 2),
    (QueryError("time", "Too long."), 1),
    (PermissionError(13, "Permission denied", "/x"), 1),
    (ZeroDivisionError("division by zero"), 1),
]


@pytest.mark.parametrize(("error", "code"), CASES, ids=lambda value: type(value).__name__)
def test_exit_codes(error, code):
    found, sentence = explain(error)
    assert found == code
    assert sentence
    assert "Traceback" not in sentence


def test_every_exit_code_of_a_run_error_is_its_own():
    waiting = [run_errors.RunError]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        assert isinstance(kind.exit_code, Exit)


def test_an_unexpected_error_names_itself_and_how_to_see_more():
    _, sentence = explain(ZeroDivisionError("division by zero"))
    assert (
        sentence == "Something unexpected went wrong (ZeroDivisionError: division by zero). ONWARD_DEBUG=1 shows where."
    )


def test_a_traceback_is_shown_to_who_asks_for_it(monkeypatch, capsys):
    monkeypatch.delenv("ONWARD_DEBUG", raising=False)
    monkeypatch.setenv("ONWARD_STORE", "paper")
    assert main(["list"]) == 2
    quiet = capsys.readouterr()
    assert quiet.out == ""
    assert quiet.err.count("\n") == 1
    assert "'postgres' or 'sqlite'" in quiet.err
    monkeypatch.setenv("ONWARD_DEBUG", "1")
    assert main(["list"]) == 2
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["runn"], "No such command 'runn'. Did you mean 'run', 'prune'? Try: onward --help"),
        (["run"], "Give an .xlsx workbook or a .csv file, or a graph of your own with --graph FILE.py:NAME."),
        (["run", "x.csv", "--store", "paper"], "Invalid value for '--store'"),
        (["run", "x.csv", "--budget", "much"], "--budget"),
        (["show", "1", "-o", "xml"], "Invalid value for '--output' / '-o'"),
        (["revise", "12345678"], "Missing option '--reason'"),
        (["list", "--limit", "0"], "--limit"),
        (["ledger", "shwo"], "No such command 'shwo'"),
    ],
)
def test_usage_errors_are_one_line_and_exit_2(arguments, words, capsys):
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert words in shown.err
    assert shown.err.startswith("onward: ")
    assert shown.err.count("\n") == 1
