"""Tokens of the ledger: who a presented one stands for, what a caller may do, and the file that holds the hashes."""

import json
import logging
import stat
import threading
from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner

from onward_ledger.callers import EVERYTHING, Caller, Scope, person, who
from onward_ledger.commands.token import app as token_command
from onward_ledger.errors import BadRequest, Conflict, Forbidden, NotFound
from onward_ledger.gate import MOST_PEERS, Strangers
from onward_ledger.token_file import PREFIX, add, digest, read_entries, revoke
from onward_ledger.tokens import Tokens

NOW = datetime(2026, 1, 1, tzinfo=UTC)
AGENT = Caller(name="agent", scopes=frozenset({Scope.PERFORM, Scope.READ}))
ANN = Caller(
    name="ann",
    scopes=frozenset({Scope.DECIDE}),
    principal="ann",
    roles=frozenset({"publisher"}),
    kinds=("report.*", "draft.save"),
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tokens.toml"


def make(path, caller, **options):
    return add(path, caller, created_at=NOW, **options)


def test_a_token_stands_for_its_caller(path):
    agent, ann = make(path, AGENT), make(path, ANN)
    tokens = Tokens("the service's own token", path)
    assert tokens.caller(agent.encode()) == AGENT
    assert tokens.caller(ann.encode()) == ANN
    assert tokens.caller(b"the service's own token") == Caller(name="service", scopes=EVERYTHING)


def test_nothing_else_is_a_token(path):
    agent = make(path, AGENT)
    tokens = Tokens("the service's own token", path)
    for wrong in (b"", agent[:-1].encode(), agent.encode() + b"x", digest(agent).encode(), "ä".encode("latin-1")):
        assert tokens.caller(wrong) is None
    nothing = path.with_name("nothing.toml")
    nothing.write_text(f'[tokens.empty]\nsha256 = "{digest("")}"\nscopes = ["read"]\n')
    nothing.chmod(0o600)
    assert Tokens(None, nothing).caller(b"") is None


def test_every_entry_is_compared_whoever_matches(path, monkeypatch):
    made = [make(path, Caller(name=f"token{number}", scopes=frozenset({Scope.READ}))) for number in range(5)]
    tokens = Tokens("the service's own token", path)
    compared = []
    monkeypatch.setattr("onward_ledger.tokens.hmac.compare_digest", lambda a, b: compared.append(a) or a == b)
    for presented in (made[0].encode(), made[4].encode(), b"the service's own token", b"wrong", b""):
        compared.clear()
        tokens.caller(presented)
        assert len(compared) == 6


def test_a_token_ends(path):
    token = make(path, AGENT, expires_at=NOW + timedelta(hours=1))
    times = [NOW, NOW + timedelta(minutes=59), NOW + timedelta(hours=1)]
    tokens = Tokens(None, path, now=lambda: times.pop(0))
    assert [tokens.caller(token.encode()) for _ in range(3)] == [AGENT, AGENT, None]


def test_the_file_holds_no_token_and_is_its_owners_only(path):
    token = make(path, ANN, expires_at=NOW)
    assert token.startswith(PREFIX)
    assert len(token) == len(PREFIX) + 43
    text = path.read_text()
    assert token not in text
    assert token.removeprefix(PREFIX) not in text
    assert digest(token) in text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    (entry,) = read_entries(path)
    assert (entry.caller, entry.expires_at, entry.created_at) == (ANN, NOW, NOW)
    assert list(path.parent.iterdir()) == [path], "nothing is left beside it"


def test_two_tokens_are_never_alike_and_names_are_taken_once(path):
    assert make(path, AGENT) != make(path, ANN)
    before = path.read_text()
    with pytest.raises(Conflict, match="agent already"):
        make(path, AGENT)
    assert path.read_text() == before


def test_what_a_person_wrote_into_the_file_stays(path):
    make(path, AGENT)
    path.write_text("# Kept by ops.\n" + path.read_text() + "\n# Ann's laptop\n")
    make(path, ANN)
    make(path, Caller(name="third", scopes=EVERYTHING))
    revoke(path, "agent")
    assert path.read_text().startswith("# Kept by ops.\n# Ann's laptop\n\n[tokens.ann]\n")
    assert [entry.caller.name for entry in read_entries(path)] == ["ann", "third"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_revoking_what_is_not_there_or_not_ours_to_edit(path):
    make(path, AGENT)
    with pytest.raises(NotFound, match="no token of the name ann"):
        revoke(path, "ann")
    inline = "".join(f'tokens.{n} = {{sha256 = "{digest(n)}", scopes = ["read"]}}\n' for n in ("one", "two"))
    path.write_text(inline)
    with pytest.raises(BadRequest, match=r"take \[tokens.one\] out by hand"):
        revoke(path, "one")
    assert path.read_text() == inline


def test_writers_take_turns(path):
    callers = [Caller(name=f"token{number}", scopes=frozenset({Scope.READ})) for number in range(8)]
    threads = [threading.Thread(target=make, args=(path, caller)) for caller in callers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {entry.caller for entry in read_entries(path)} == set(callers)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602])
def test_a_file_that_others_can_use_is_refused(path, mode):
    make(path, AGENT)
    path.chmod(mode)
    for use in (lambda: Tokens(None, path), lambda: make(path, ANN), lambda: revoke(path, "agent")):
        with pytest.raises(BadRequest, match=f"mode is {mode:04o}.*chmod 600 {path}"):
            use()
    path.chmod(0o600)
    assert Tokens(None, path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[tokens.a\n", "not TOML"),
        ('[tokens.a]\nscopes = ["read"]\n', "tokens.a.sha256: Field required"),
        (f'[tokens.a]\nsha256 = "{"0" * 64}"\nscopes = ["everything"]\n', "tokens.a.scopes.0"),
        (f'[tokens.a]\nsha256 = "{"0" * 64}"\nscopes = []\n', "tokens.a.scopes"),
        (f'[tokens.a]\nsha256 = "{"0" * 64}"\nscopes = ["read"]\nkind = ["x"]\n', "tokens.a.kind: Extra"),
        (f'[tokens.a]\nsha256 = "{"0" * 64}"\nscopes = ["read"]\nkinds = []\n', "tokens.a.kinds"),
        (f'[tokens.a]\nsha256 = "{"0" * 64}"\nscopes = ["read"]\nprincipal = ""\n', "printable"),
        (f'[tokens.a]\nsha256 = "{"0" * 64}"\nscopes = ["read"]\nexpires_at = 2030-01-01T00:00:00\n', "timezone"),
        (f'[tokens."a b"]\nsha256 = "{"0" * 64}"\nscopes = ["read"]\n', "tokens.a b"),
        ('[tokens.a]\nsha256 = "onw_put-here-by-mistake"\nscopes = ["read"]\n', "tokens.a.sha256"),
        ("[token.a]\n", "token: Extra"),
    ],
)
def test_a_file_that_is_not_right_is_refused_and_not_quoted(path, text, says):
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(BadRequest) as caught:
        Tokens(None, path)
    assert says in caught.value.message
    assert "by-mistake" not in caught.value.message


def test_a_missing_file_says_how_to_make_one(path):
    with pytest.raises(BadRequest, match="onward-ledger token new NAME"):
        Tokens(None, path)


def test_changes_of_the_file_count_at_the_next_request(path):
    agent = make(path, AGENT)
    tokens = Tokens(None, path)
    ann = make(path, ANN)
    assert tokens.caller(ann.encode()) == ANN
    revoke(path, "agent")
    assert tokens.caller(agent.encode()) is None
    assert tokens.caller(ann.encode()) == ANN


def test_a_file_that_did_not_change_is_not_read(path, monkeypatch):
    agent = make(path, AGENT)
    tokens = Tokens(None, path)
    monkeypatch.setattr("onward_ledger.tokens.read_entries", lambda _: pytest.fail("read"))
    assert tokens.caller(agent.encode()) == AGENT


@pytest.mark.parametrize("breakage", ["broken", "open", "gone"])
def test_a_file_that_breaks_leaves_the_old_tokens_in_force(path, caplog, breakage):
    agent = make(path, AGENT)
    tokens = Tokens(None, path)
    text = path.read_text()
    match breakage:
        case "broken":
            path.write_text("[tokens.\n")
        case "open":
            path.chmod(0o644)
        case "gone":
            path.unlink()
    with caplog.at_level(logging.INFO):
        assert [tokens.caller(agent.encode()) for _ in range(3)] == [AGENT] * 3
        errors = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert len(errors) == 1, "told once, not at every request"
        assert "stay in force" in errors[0].message
        path.write_text(text)
        path.chmod(0o600)
        revoke(path, "agent")
        assert tokens.caller(agent.encode()) is None


def test_scopes_and_kinds():
    AGENT.require(Scope.PERFORM, "report.publish")
    AGENT.require("read", "anything")
    with pytest.raises(Forbidden, match="'agent' lacks the scope 'operate'"):
        AGENT.require("operate")
    ANN.require("decide", "report.publish")
    ANN.require("decide", "draft.save")
    ANN.require("decide")
    for kind in ("ticket.create", "draft.saved", "REPORT.publish", ""):
        with pytest.raises(Forbidden, match=r"of report\.\*, draft\.save only"):
            ANN.require("decide", kind)
    Caller(name="x", scopes=frozenset({Scope.READ}), kinds=("report.*",)).require("read", "ticket.create")
    assert (Forbidden.status, Forbidden.definite, Forbidden.terminal) == (403, True, True)


def test_who_speaks():
    assert who(AGENT, None) == (None, True)
    assert who(AGENT, "J%C3%BCrgen%20M") == ("Jürgen M", True)
    assert who(ANN, None) == ("ann", False)
    assert who(ANN, "ann") == ("ann", False)
    assert person(ANN, None) == ("ann", False)
    assert person(AGENT, "bob") == ("bob", True)
    with pytest.raises(Forbidden, match="is ann's; it cannot speak for bob"):
        who(ANN, "bob")
    with pytest.raises(BadRequest, match="needs a person"):
        person(AGENT, None)
    for wrong in ("", "  ", "a%00b", "a%0Ab", "x" * 201):
        with pytest.raises(BadRequest, match="printable"):
            who(AGENT, wrong)


def test_strangers_are_counted_and_told_once_a_second(caplog):
    clock = [0.0]
    strangers = Strangers(lambda: clock[0])
    with caplog.at_level(logging.WARNING):
        for at in (0.0, 0.1, 0.9, 1.0, 1.5):
            clock[0] = at
            strangers.note("10.0.0.1")
        strangers.note("10.0.0.2")
    assert [record.args for record in caplog.records] == [("10.0.0.1", 1), ("10.0.0.1", 4), ("10.0.0.2", 1)]
    assert strangers.total == 6
    caplog.clear()
    for number in range(3 * MOST_PEERS):
        strangers.note(f"peer {number}")
    assert len(strangers._peers) == MOST_PEERS


def command(*arguments, path):
    return CliRunner().invoke(token_command, [*arguments, "--tokens", str(path)])


def test_the_command_makes_lists_and_revokes(path):
    made = command(
        *("new", "ann-laptop", "--scope", "decide", "--scope", "read", "--principal", "ann", "--role", "publisher"),
        *("--kind", "report.*", "--days", "30"),
        path=path,
    )
    assert made.exit_code == 0, made.output
    token = made.output.strip()
    found = Tokens(None, path).caller(token.encode())
    assert found == Caller(
        name="ann-laptop",
        scopes=frozenset({Scope.DECIDE, Scope.READ}),
        principal="ann",
        roles=frozenset({"publisher"}),
        kinds=("report.*",),
    )
    shown = command("list", path=path).output
    for word in ("ann-laptop", "read decide", "ann", "roles publisher", "kinds report.*", "ends 20"):
        assert word in shown
    assert token not in shown
    (listed,) = json.loads(command("list", "--json", path=path).output)["tokens"]
    assert (listed["scopes"], listed["roles"]) == (["read", "decide"], ["publisher"])
    assert datetime.fromisoformat(listed["expires_at"]) - datetime.fromisoformat(listed["created_at"]) == timedelta(30)
    assert command("revoke", "ann-laptop", path=path).exit_code == 0
    assert command("list", path=path).output == ""


def test_the_command_refuses_in_plain_sentences(path):
    def refused(*arguments):
        done = command(*arguments, path=path)
        return done.exit_code, done.output

    assert refused("list")[0] == 2
    assert "token new NAME" in refused("list")[1]
    assert refused("new", "a", "--scope", "everything")[0] == 2
    assert refused("new", "a b", "--scope", "read")[0] == 2
    assert refused("new", "a")[0] == 2, "a token without a scope is good for nothing"
    assert refused("new", "a", "--scope", "read", "--principal", " ")[0] == 2
    assert not path.exists()
    assert refused("new", "a", "--scope", "read")[0] == 0
    assert refused("new", "a", "--scope", "read")[0] == 4
    assert refused("revoke", "b")[0] == 3
