"""What the documents say and can drift from the code: codes, names, routes, states, numbers, commands, links.

Prose is for people to check. These are the facts that stand in two places.
"""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from dataclasses import fields
from typing import get_args

import pytest
import typer

from experiments.demo import main as demo_main
from graph.nodes import REVISIONS
from onward_ledger import __main__ as ledger_command
from onward_ledger import client, errors, gate, protocol, wire
from onward_ledger.action import TRANSITIONS, Action, Status
from onward_ledger.commands import common
from onward_ledger.errors import LedgerError, LedgerUnreachable, ObjectError
from onward_ledger.objects import Objects
from onward_ledger.providers import providers_for
from onward_ledger.providers.interface import ProviderClass, SendingProvider
from onward_ledger.service import create_app
from onward_ledger.store import claims
from runs import cli, clock, drive, endings, events, failures, local_ledger, local_postgres, next_move, registry
from runs.errors import Exit, LimitReached, NotPermitted
from runs.settings import Settings
from runs.wake import UNKNOWN_OUTCOME
from tests.support.markdown import ROOT, codes, document, documents
from tests.support.runs_values import a_driven_run, an_action
from tools.errors import InputError
from verify import _parser as verify_parser

GUARANTEES, PROTOCOL = document("docs/guarantees.md"), document("docs/protocol.md")
OPERATIONS, JSON, README = document("docs/operations.md"), document("docs/json.md"), document("README.md")
PRODUCT = ("graph", "tools", "runs", "ledger/src")


def sources(*folders: str) -> dict[str, str]:
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}


# --- codes, settings, files -------------------------------------------------------------------------------------------


def test_exit_codes():
    rows = OPERATIONS.table("code", "name", "what it says", "what to do")
    assert [(int(code), name) for code, name, *_ in rows] == [(int(code), code.name) for code in Exit]
    sentence = re.search(r"Exit codes:(.*?)\.\s", README.text, re.DOTALL).group(1)
    assert [int(number) for number in re.findall(r"\d+", sentence)] == [int(code) for code in Exit]


def test_every_setting_stands_in_the_table_with_its_default():
    rows = {codes(name)[0]: default for name, default, _ in OPERATIONS.table("variable", "default", "what it is")}
    settings = {str(field.validation_alias): field for field in Settings.model_fields.values()}
    assert list(rows) == list(settings) or sorted(rows) == sorted(settings)
    for name, field in settings.items():
        if isinstance(field.default, str | float | int) or name == "ONWARD_HOME":
            shown = f"{field.default:g}" if isinstance(field.default, float) else str(field.default)
            assert codes(rows[name]) == [shown], name
    assert "0.5 to 3600" in OPERATIONS.text  # of the lease, as the bounds below
    bounds = {type(limit).__name__: limit for limit in Settings.model_fields["lease_seconds"].metadata}
    assert (bounds["Ge"].ge, bounds["Le"].le) == (0.5, 3600)


def test_every_variable_that_the_product_reads_is_documented():
    pattern = re.compile(r"""["'](ONWARD_[A-Z_]*[A-Z]|PG_BIN|(?:LEDGER_)?DATABASE_URL|LANGGRAPH_\w+)["']""")
    read = {name for text in sources(*PRODUCT).values() for name in pattern.findall(text)}
    objects = sources("ledger/src/onward_ledger")["ledger/src/onward_ledger/objects.py"]
    listed = re.search(r"names = \((.*?)\)", objects).group(1)
    read |= {f"ONWARD_OBJECTS_{name}" for name in re.findall(r'"(\w+)"', listed)}
    named = {name for row in OPERATIONS.table("variable", "what it is") for name in codes(row[0])}
    named |= {codes(row[0])[0] for row in OPERATIONS.table("variable", "default", "what it is")}
    assert "ONWARD_DEBUG" in read and "ONWARD_OBJECTS_ENDPOINT" in read  # or this looks at nothing
    assert named == read


def test_the_tree_of_the_data_folder_names_every_file(tmp_path):
    table = OPERATIONS.table("name", "what it is", "may be deleted")
    named = {name.rstrip("/") for row in table for name in codes(row[0]) + codes(row[1])}
    home = tmp_path / "home"
    made = {"drivers.log", "postgres.log", "postgres.lock", "postgres.json", "postgres"}
    for store in ("postgres", "sqlite"):
        settings = Settings(home=home, store=store)
        files = local_ledger._Files.of(settings)
        made |= {path.name for path in (files.address, files.token, files.log)}
        made |= {
            settings.sqlite_path.name,
            settings.ledger_sqlite_path.name,
            settings.scratch.name,
            settings.locks.name,
        }
    assert made <= named
    text = "".join(sources("runs").values())
    for name in ("drivers.log", "postgres.log", "postgres.lock", "postgres.json"):
        assert f'"{name}"' in text, name


def test_every_check_of_the_doctor_stands_in_its_table():
    tree = ast.parse(sources("runs")["runs/doctor.py"])
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("_ok", "Check"):
            named = [k.value for k in node.keywords if k.arg == "name"] if node.func.id == "Check" else node.args[:1]
            found |= {value.value for value in named if isinstance(value, ast.Constant)}
    found.add("data folder")  # held in a variable there
    assert {codes(row[0])[0] for row in OPERATIONS.table("check", "what it looks at")} == found


# --- the ledger -------------------------------------------------------------------------------------------------------


def test_routes_are_those_of_the_service():
    paths = create_app(None).openapi()["paths"]
    served = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert {(row[0], codes(row[1])[0]) for row in PROTOCOL.table("method", "path", "what it does")} == served


def test_every_route_is_tried():
    served = create_app(None).openapi()["paths"]
    tried = {
        (method, path.partition("?")[0])
        for block in PROTOCOL.blocks("sh")
        for method, path in re.findall(r'^ask (\w+) "?([^ "]+)', block, re.MULTILINE)
    }
    for path, methods in served.items():
        shape = re.compile(re.sub(r"\{\w+\}", r"[^/]+", path))
        for method in methods:
            assert any(m == method.upper() and shape.fullmatch(p) for m, p in tried), (method, path)


def test_the_table_of_transitions():
    rows = PROTOCOL.table("from", "word", "to", "when")
    assert [tuple(row[:3]) for row in rows] == [(str(a or "-"), word, str(b)) for a, word, b in TRANSITIONS]
    drawing = next(block for block in PROTOCOL.blocks("") if "PREPARED" in block)
    assert drawing.strip() in inspect.getdoc(inspect.getmodule(Action)).replace("\n    ", "\n")
    assert {status for status in Status if status in drawing} == set(Status)


def test_the_record_has_these_fields():
    named = [codes(row[0])[0] for row in PROTOCOL.table("field", "what it is")]
    assert named == [field.name for field in fields(Action)]


def tree_of_errors() -> list[type[LedgerError]]:
    return [k for k in vars(errors).values() if inspect.isclass(k) and issubclass(k, LedgerError)]


def yes(value: bool) -> str:
    return "yes" if value else "no"


def test_problem_codes_are_the_tree_of_errors():
    travelling = [kind for kind in tree_of_errors() if not issubclass(kind, ObjectError)]
    rows = PROTOCOL.table("code", "status", "definite", "terminal", "what to do")
    assert sorted((codes(row[0])[0], *row[1:4]) for row in rows) == sorted(
        (kind.code, str(kind.status), yes(kind.definite), yes(kind.terminal)) for kind in travelling
    )
    rows = PROTOCOL.table("code", "definite", "terminal", "what it means")
    assert sorted((codes(row[0])[0], *row[1:3]) for row in rows) == sorted(
        (kind.code, yes(kind.definite), yes(kind.terminal))
        for kind in tree_of_errors()
        if issubclass(kind, ObjectError)
    )


def test_what_a_problem_can_hold():
    section = PROTOCOL.text.partition("## Errors")[2].partition("* **definite**")[0]
    assert set(re.findall(r"`(\w+)`", section)) == set(wire.Problem.model_fields)


def test_provider_classes_are_those_that_exist(tmp_path):
    here: dict[str, set[str]] = {str(kind): set() for kind in ProviderClass}
    for provider in providers_for(Objects(str(tmp_path))).values():
        here[provider.provider_class].add(provider.kind)
    short = README.table("provider class", "here", "after a crash between effect and record", "promise")
    assert {row[0]: set(codes(row[1])) & set().union(*here.values()) for row in short} == here
    header = ("provider class", "for example", "a crash between effect and record", "promise")
    promises = {row[0]: row[3] for row in GUARANTEES.table(*header)}
    assert set(promises) == {*here, "queryable, `resend_after_absent`"}
    assert {name for name, promise in promises.items() if re.match("once(;|$)", promise)} == {
        "transactional",
        "idempotent",
    }


def test_nowhere_is_exactly_once_claimed():
    said = [doc.path.name for doc in documents() if "exactly once" in " ".join(doc.text.lower().split())]
    assert said == []


# --- interruptions ----------------------------------------------------------------------------------------------------

ENDINGS = {
    "the report is published": next_move.Finish("published"),
    "Ctrl-C or SIGTERM, once": endings.Drained(),
    "the ledger or the object store does not answer": endings.Failed(LedgerUnreachable("x")),
    "another error that may pass": endings.Failed(ConnectionError("x")),
    "any other error of a step": endings.Failed(ValueError("x")),
    "the figures do not pass": next_move.Finish("unverified"),
    "what was asked for cannot be right": endings.Failed(InputError("x")),
    "a right is missing": endings.Failed(NotPermitted("x")),
    "a step failed eight times in a row": endings.Failed(ConnectionError("x")),
    "more than ten drivers in a row": endings.Poison(drive.POISON_TAKEOVERS + 1),
    "deadline or budget used up": endings.Failed(LimitReached("x", limit="budget")),
    "the publication needs an approval": next_move.Wait(("a",)),
    "a person rejects": next_move.Finish("rejected"),
    "nobody can tell": next_move.Wait(("a",), UNKNOWN_OUTCOME),
    "the ledger's fence is closed": endings.Cancelled("x"),
    "it was too late to cancel": endings.TooLate(
        an_action("deliver", "publish", "k", "r", {}, status=Status.SUCCEEDED)
    ),
    "it is to be cancelled": endings.NotStopped(LedgerUnreachable("x")),
    "graph and ledger contradict": next_move.Broken("x", {}),
}
# What no drive can write down as its end.
UNTOLD = ("driver, command or machine killed", "the database of runs stays away", "another driver has taken over")


def interruptions() -> list[list[str]]:
    return GUARANTEES.table("what happens", "meaning", "the run becomes", "goes on", "exit")


@pytest.mark.parametrize("words", ENDINGS)
def test_an_interruption_ends_as_the_table_says(words):
    row = next(row for row in interruptions() if row[0].startswith(words))
    ending = ENDINGS[words]
    cancelled = isinstance(ending, endings.Cancelled)
    failed = failures.ATTEMPTS - 1 if words.startswith("a step failed") else 0
    status = registry.Status.CANCEL_REQUESTED if cancelled else registry.Status.RUNNING
    run = a_driven_run(status=status, failures=failed)
    outcome = endings._move_for(ending, run).outcome
    status, *reasons = codes(row[2])
    assert status == outcome.status
    assert outcome.reason in (reasons or [None])
    assert row[4] == str(int(outcome.exit_code))
    if isinstance(ending, endings.Failed):
        assert row[1] == failures.meaning(ending.error)
    assert ("by itself" in row[3] or row[3] == "likewise") == (outcome.again_after_seconds is not None)


def test_the_table_of_interruptions_is_whole():
    rows = interruptions()
    assert {row[1] for row in rows} == {"-", *get_args(failures.Meaning)}
    known = (*ENDINGS, *UNTOLD)
    assert [row[0] for row in rows if not row[0].startswith(known)] == []
    assert len(rows) == len(known)


# --- numbers ----------------------------------------------------------------------------------------------------------

*_pauses, _last = (f"{pause:g}" for pause in failures.BACK_OFF_SECONDS)
NUMBERS = ("no", "one", "two", "three", "four", "five", "six")
SAID = [
    (GUARANTEES, f"after {', '.join(_pauses)} and {_last} s"),
    (GUARANTEES, f"more than {clock.LARGEST_SKEW_SECONDS:g} seconds off"),
    (GUARANTEES, f"({Settings.model_fields['lease_seconds'].default:g} seconds, `ONWARD_LEASE_SECONDS`)"),
    (GUARANTEES, f"no answer comes within {SendingProvider.deadline_seconds:g} seconds"),
    (GUARANTEES, f"do not pass their test {NUMBERS[REVISIONS + 1]} times"),
    (PROTOCOL, f"a hard deadline of {SendingProvider.deadline_seconds:g} seconds"),
    (PROTOCOL, f"{claims.RECORD_GRACE_SECONDS:g} seconds after the send's deadline"),
    (PROTOCOL, f"{client.PATIENCE_SECONDS:g} seconds in all"),
    (PROTOCOL, f"asked for again {NUMBERS[len(protocol.RETRY_PAUSES_SECONDS)]} times within two seconds"),
    (PROTOCOL, f"A body has at most {gate.LARGEST_BODY_BYTES // 1024} KiB"),
    (PROTOCOL, f"at most {wire.LARGEST_JSON_BYTES // 1024} KiB each"),
    (PROTOCOL, f"listens on port {common.DEFAULT_PORT}"),
    (PROTOCOL, f"API version `{protocol.API_VERSION}`"),
    (OPERATIONS, f"put aside at {local_postgres.LOG_BYTES // 1_000_000} MB"),
    (
        OPERATIONS,
        f"`IN_FLIGHT` for over {SendingProvider.deadline_seconds + claims.RECORD_GRACE_SECONDS:g} seconds",
    ),
]


@pytest.mark.parametrize(("doc", "phrase"), SAID, ids=[phrase for _, phrase in SAID])
def test_numbers_are_those_of_the_code(doc, phrase):
    assert phrase in " ".join(doc.text.split())


def test_the_local_postgres_is_durable_as_said():
    row = next(
        row for row in GUARANTEES.table("storage", "processes killed", "power lost") if "local Postgres" in row[0]
    )
    assert [local_postgres.SETTINGS[name] for name in codes(row[2])] == ["on", "on", "on"]
    assert len(codes(row[2])) == 3


# --- runs and events --------------------------------------------------------------------------------------------------


def test_statuses_of_runs():
    assert [codes(row[0])[0] for row in JSON.table("status", "what it is", "reasons")] == list(registry.Status)


def test_kinds_of_events():
    listed = inspect.getdoc(events).partition("hold")[2]
    kinds = set(re.findall(r"([a-z_]+)(?=,? +(?:[a-z_]+ +)?\{)", listed)) | {"receipt"}
    assert {codes(row[0])[0] for row in JSON.table("kind", "data")} == kinds


# --- commands and links -----------------------------------------------------------------------------------------------

ONWARD, LEDGER = (typer.main.get_command(app) for app in (cli.app, ledger_command.app))
DEMO = set(re.findall(r'add_argument\("(--\w+)"', inspect.getsource(demo_main)))
VERIFY = set(verify_parser()._option_string_actions)


# At the start of a line or span, or behind what starts it.
OURS = re.compile(r"(?:^ *|&& |uv run )((?:onward|onward-ledger|verify\.py) [a-z-].*)")


def commands() -> list[tuple[str, str]]:
    """(document, command line) of every command of ours that a document shows, in blocks and in backticks."""
    found: list[tuple[str, str]] = []
    for doc in documents():
        lines = [line for block in doc.blocks() for line in block.replace("\\\n", " ").splitlines()]
        for text in (*lines, *(" ".join(span.split()) for span in doc.spans())):
            found += [(doc.path.name, line) for line in OURS.findall(text)]
    return found


def words_of(line: str) -> list[str]:
    words = shlex.split(line.partition(" # ")[0].replace("…", ""), comments=True)
    return words[: next((n for n, word in enumerate(words) if word in ("|", "&&", ">", "#")), len(words))]


@pytest.mark.parametrize(("name", "line"), sorted(set(commands())), ids=lambda value: str(value)[:60])
def test_a_command_in_a_document_exists(name, line):
    program, *words = words_of(line)
    if program == "verify.py":
        assert {word for word in words if word.startswith("-")} <= VERIFY
        return
    command = ONWARD if program == "onward" else LEDGER
    while hasattr(command, "commands") and words:
        assert words[0] in command.commands, f"{name}: there is no command {line!r}"
        command = command.commands[words.pop(0)]
    options = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    options |= DEMO if command.name == "demo" else set()
    assert {word.partition("=")[0] for word in words if word.startswith("-")} <= options, f"{name}: {line!r}"


def test_every_command_is_shown_somewhere():
    shown = {" ".join(words_of(line)[1:3]) for _, line in commands()}
    for name, command in ONWARD.commands.items():
        for path in (f"{name} {sub}" for sub in getattr(command, "commands", [])) if name == "ledger" else (name,):
            assert any(text == path or text.startswith(f"{path} ") for text in shown), path


@pytest.mark.parametrize("doc", documents(), ids=lambda doc: str(doc.path.relative_to(ROOT)))
def test_links_lead_somewhere(doc):
    for link in doc.links():
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = link.partition("#")
        target = (doc.path.parent / path).resolve() if path else doc.path
        assert target.exists(), f"{doc.path.name}: {link}"
        assert target.is_relative_to(ROOT), f"{doc.path.name}: {link} leads out of the repository"
        if anchor:
            assert anchor in document(str(target.relative_to(ROOT))).anchors(), f"{doc.path.name}: {link}"


def test_files_that_are_named_exist():
    """Paths in backticks, such as `runs/failures.py` and `tests/integration/…`."""
    missing: list[str] = []
    for doc in documents():
        for span in doc.spans():
            if re.fullmatch(r"(?:graph|tools|runs|tests|docs|experiments|examples|ledger)/[\w./-]+", span):
                missing += [] if (ROOT / span).exists() else [f"{doc.path.name}: {span}"]
    assert missing == []
