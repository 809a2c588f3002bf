"""verify.py on graphs of other people, of every kind: what it finds, what it leaves alone, and what it says."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import psycopg
import pytest

from experiments.cluster import PREFIX
from tests.support.anygraph_runs import AGENTS, KINDS, LATE, ROOT, Done, kind, run_all

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(400)]

MESSAGES = '{"messages": [{"role": "user", "content": "pay 7 back"}]}'
SHOP = ROOT / "examples/graphs/shop.py"


def example(name: str, *more: str) -> list[str]:
    counted = [
        word for what in ("refunds", "mails", "tickets") for word in ("--effects", f"{what}=python:{SHOP}:{what}")
    ]
    given = ["--input", '{"order_id": "order-{thread_id}"}', "--resume", "true"]
    return ["--store", "sqlite", "--graph", f"{ROOT}/examples/graphs/{name}.py:graph", *counted, *given, *more]


@pytest.fixture(scope="module")
def requests() -> Iterator[str]:
    """A server that keeps what is posted, and answers how many that were of one thread."""
    posted: Counter[str] = Counter()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted[json.loads(self.rfile.read(int(self.headers["Content-Length"])))] += 1
            self._answer("posted")

        def do_GET(self) -> None:
            self._answer(posted[self.path.partition("thread=")[2]])

        def _answer(self, value: object) -> None:
            body = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(OSError):  # whoever asked may be dead
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def sent_table(postgres_server: str) -> Iterator[str]:
    """A database of theirs with a table for effects."""
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute("create database theirs")
        url = postgres_server.replace("/postgres?", "/theirs?", 1)
        with psycopg.connect(url, autocommit=True) as theirs:
            theirs.execute("create table sent (thread_id text, what text)")
        yield url
        connection.execute("drop database theirs with (force)")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory, requests: str, sent_table: str) -> dict[str, Done]:
    world = tmp_path_factory.mktemp("world")
    sent = ["--only", f"after send, {LATE}"]
    commands = {
        "builder": kind("builder", world, "--out", str(world / "out")),
        "careful": kind("careful", world),
        **{name: kind(name, world, *sent) for name in ("compiled", "factory", "bare_factory", "async_factory")},
        "only_async": kind("only_async", world, "--only", LATE),
        "parallel": kind("parallel", world, "--only", LATE),
        "fan_out": kind("fan_out", world, "--only", LATE),
        "subgraph": kind("subgraph", world, "--only", LATE),
        "functional": kind("functional", world, "--only", LATE, "--input", "[1, 2]"),
        "asking": kind("asking", world, "--only", LATE, "--resume", '"yes"', "--resume", '"sure"'),
        "two_questions": kind(
            "two_questions", world, "--only", LATE, "--resume", "1", "--resume", "2", "--resume", "3"
        ),
        "tasks_in_nodes": kind("tasks_in_nodes", world, "--only", LATE),
        "agent": kind("agent", world, "--only", LATE, "--input", MESSAGES, file=AGENTS),
        "async_functional": kind("async_functional", world, "--only", LATE, "--input", "[1, 2]"),
        "careful_agent": kind("careful_agent", world, "--only", LATE, "--input", MESSAGES, file=AGENTS),
        "async_agent": kind("async_agent", world, "--only", LATE, "--input", MESSAGES, file=AGENTS),
        "stubborn": kind("stubborn", world),
        "contextual": kind(
            "contextual",
            world,
            "--only",
            LATE,
            "--context",
            '{"tenant": "acme"}',
            "--config",
            '{"configurable": {"colour": "red"}}',
        ),
        "losing": kind("losing", world, "--only", "open a file"),
        "sticking": kind("sticking", world, "--only", LATE),
        "differing": kind("differing", world, "--only", LATE),
        "varying": kind("varying", world, "--only", "open a file"),
        "exit": kind("careful", world, "--only", LATE, "--durability", "exit"),
        "by function": kind("compiled", world, *sent, effects=f"lines=python:{KINDS}:count"),
        "one by one": kind("compiled", world, *sent, effects=f"lines=python:{KINDS}:count_all"),
        "nothing counted": kind("without_effects", world),
        "unanswered": kind("asking", world, "--resume", '"yes"'),
        "broken": kind("broken", world),
        "no input": kind("builder", world, "--input", "null"),
        "missing name": kind("absent", world),
        "no graph": kind("nothing", world),
        "failing factory": kind("failing_factory", world),
        "factory of nothing": kind("factory_of_nothing", world),
        "bad count": kind("builder", world, effects=f"lines=python:{KINDS}:count_badly"),
        "no such place": kind("builder", world, "--only", "nowhere"),
        "unsafe": example("unsafe", "--only", LATE),
        "safe": example("safe", "--only", LATE, "--json"),
    }
    http, postgres = (
        f"{requests}/sent?thread={{thread_id}}",
        f"sql:{sent_table}|select what from sent where thread_id = ",
    )
    commands["over http"] = kind("over_http", world, "--only", "in post", effects=f"posts={http}")
    commands["in postgres"] = kind(
        "in_postgres", world, "--store", "postgres", "--only", "insert", effects=f"rows={postgres}'{{thread_id}}'"
    )
    return run_all(
        commands,
        world,
        SHOP=str(world / "shop"),
        ANYGRAPH_HTTP=requests,
        ANYGRAPH_POSTGRES=sent_table,
    )


# --- what is found ----------------------------------------------------------------------------------------------------


def test_a_node_that_sends_without_a_key_sends_twice(found: dict[str, Done]) -> None:
    done = found["builder"]
    told = done.json
    assert (done.code, told["verdict"]) == (10, "disproved")
    assert (told["lost"], told["wrong"], told["stuck"], told["not_fired"]) == (0, 0, 0, 0)
    assert told["boundaries"] > told["killed"] == len(told["cases"]) >= 15
    assert told["effects"] == {"lines": 1}
    assert told["executed"] == {"send": 1, "rest": 1}
    assert told["not_compared"] == {"result": ["token"], "lines": []}
    assert done.nodes.keys() == {("send", "lines")}
    late = done.words(f"after send, {LATE}")
    assert (late["duplicates"], late["executed_again"]) == ({"lines": 1}, {"send": 1})
    assert done.words("before send")["duplicates"] == {}
    assert done.words("before rest")["duplicates"] == {}
    assert done.words(f"after rest, {LATE}")["executed_again"] == {"rest": 1}
    advice = " ".join(done.nodes["send", "lines"]["advice"])
    assert 'f"{thread_id}/send"' in advice
    assert "uuid4()" in advice


def test_a_node_that_looks_first_is_clean_at_every_boundary(found: dict[str, Done]) -> None:
    done = found["careful"]
    told = done.json
    assert (done.code, told["verdict"], told["reasons"], told["nodes"]) == (0, "pass", [], [])
    assert told["killed"] == len(told["cases"]) >= 10
    assert 0 < told["reexecuted_steps"] <= told["killed"]


@pytest.mark.parametrize("name", ["compiled", "factory", "bare_factory", "async_factory", "by function", "one by one"])
def test_however_a_graph_is_given_and_its_effects_are_counted(found: dict[str, Done], name: str) -> None:
    told = found[name].json
    assert (told["verdict"], told["killed"], told["duplicates"]) == ("disproved", 1, 1)
    assert told["nodes"][0]["node"] == "send"
    assert told["lanes"] == 1 if name == "one by one" else told["lanes"] > 1


def test_an_async_graph_is_run_with_ainvoke(found: dict[str, Done]) -> None:
    told = found["only_async"].json
    assert told["ainvoke"] is True
    assert told["nodes"][0]["repeated_at"] == [f"after send_async, {LATE}"]


def test_of_parallel_nodes_the_one_that_repeats_is_named(found: dict[str, Done]) -> None:
    nodes = found["parallel"].nodes
    assert nodes.keys() == {("left", "lines")}
    assert f"after left, {LATE}" in nodes["left", "lines"]["repeated_at"]
    assert any("beside others" in line for line in nodes["left", "lines"]["advice"])


def test_each_branch_of_a_send_is_killed(found: dict[str, Done]) -> None:
    node = found["fan_out"].nodes["worker", "lines"]
    assert {f"after worker, {LATE}", f"after worker #2, {LATE}"} <= set(node["repeated_at"])
    assert any("a number from the state or the Send" in line for line in node["advice"])


def test_a_node_of_a_subgraph_is_named_with_its_path(found: dict[str, Done]) -> None:
    nodes = found["subgraph"].nodes
    assert nodes.keys() == {("inner/send", "lines")}
    assert nodes["inner/send", "lines"]["repeated_at"] == [f"after inner/send, {LATE}"]


def test_the_functional_api(found: dict[str, Done]) -> None:
    nodes = found["functional"].nodes
    assert nodes.keys() == {("functional", "lines"), ("functional/pay", "lines")}
    assert nodes["functional/pay", "lines"]["kind"] == "task"
    assert f"after functional/pay #2, {LATE}" in nodes["functional/pay", "lines"]["repeated_at"]
    assert any("body of an @entrypoint" in line for line in nodes["functional", "lines"]["advice"])


def test_the_functional_api_with_ainvoke(found: dict[str, Done]) -> None:
    done = found["async_functional"]
    assert done.json["ainvoke"] is True
    node = done.nodes["async_functional/pay_async", "lines"]
    assert {f"after async_functional/pay_async{number}, {LATE}" for number in ("", " #2")} <= set(node["repeated_at"])


def test_an_effect_before_a_question_comes_again_without_any_fault(found: dict[str, Done]) -> None:
    done = found["asking"]
    node = done.nodes["ask_after", "lines"]
    assert node["without_fault"] is True
    assert done.json["executed"] == {"ask_after": 3}
    assert any(line.startswith("interrupt() comes after lines in the same node") for line in node["advice"])
    assert {f"after ask_after{number}, {LATE}" for number in ("", " #2", " #3")} == set(node["repeated_at"])


def test_each_question_gets_its_answer_in_whichever_process(found: dict[str, Done]) -> None:
    told = found["two_questions"].json
    assert (told["verdict"], told["killed"], told["wrong"], told["stuck"]) == ("pass", 5, 0, 0)
    assert told["notes"] == ["1 of the answers was not asked for."]


def test_tasks_of_nodes_that_run_side_by_side(found: dict[str, Done]) -> None:
    done = found["tasks_in_nodes"]
    assert done.nodes.keys() == {("pays/pay", "lines"), ("pays_too/pay", "lines")}
    assert done.json["killed"] == 5


def test_a_tool_of_an_agent_is_named(found: dict[str, Done]) -> None:
    done = found["agent"]
    node = done.nodes["tools/refund", "lines"]
    assert node["kind"] == "tool"
    assert node["repeated_at"] == [f"after tools/refund (a tool), {LATE}", f"after tools, {LATE}"]
    assert any("ToolRuntime.tool_call_id" in line for line in node["advice"])
    assert "messages[].id" in done.json["not_compared"]["result"]
    assert done.json["wrong"] == 0


def test_the_id_of_the_call_is_a_key_that_outlives_a_crash(found: dict[str, Done]) -> None:
    told = found["careful_agent"].json
    assert (told["verdict"], told["killed"], told["effects"]) == ("pass", 4, {"lines": 1})
    again = [case["executed_again"] for case in told["cases"]]
    assert {"tools": 1} in again


def test_a_tool_that_is_only_async_is_found_out(found: dict[str, Done]) -> None:
    done = found["async_agent"]
    assert done.json["ainvoke"] is True
    assert "it can only be run with ainvoke" in done.said
    assert done.nodes["tools/refund", "lines"]["kind"] == "tool"
    assert done.json["executed"] == {"model": 2, "tools": 1}
    assert done.json["not_reproducible"] == []


def test_context_and_configuration_reach_the_graph(found: dict[str, Done]) -> None:
    assert found["contextual"].json["nodes"][0]["node"] == "with_context"


def test_a_request_that_has_left_is_not_sent_again_unnoticed(found: dict[str, Done]) -> None:
    done = found["over http"]
    assert done.json["effects"] == {"posts": 1}
    repeated = done.nodes["post", "posts"]["repeated_at"]
    assert "in post, before answer to POST /sent" in repeated
    assert "in post, after answer to POST /sent" in repeated
    assert "in post, before send POST /sent" not in repeated


def test_their_postgres_and_ours(found: dict[str, Done]) -> None:
    done = found["in postgres"]
    told = done.json
    assert (told["store"], told["ainvoke"], told["verdict"], told["effects"]) == (
        "postgres",
        True,
        "disproved",
        {"rows": 1},
    )
    assert (told["lost"], told["wrong"], told["stuck"], told["not_fired"]) == (0, 0, 0, 0)
    repeated = done.nodes["insert", "rows"]["repeated_at"]
    assert {"in insert, after insert into sent", f"after insert, {LATE}"} <= set(repeated)
    assert "in insert, before insert into sent" not in repeated
    assert any(place.startswith("in LangGraph, storing ") for place in repeated)


def test_a_lost_effect(found: dict[str, Done]) -> None:
    told = found["losing"].json
    assert (told["verdict"], told["lost"], told["duplicates"]) == ("disproved", 1, 0)
    assert told["advice"][0].startswith("lines are lost: the step was taken for done and its effect had not happened.")


def test_a_thread_that_cannot_be_resumed(found: dict[str, Done]) -> None:
    told = found["sticking"].json
    assert (told["verdict"], told["stuck"], told["killed"]) == ("disproved", 1, 1)
    (advice,) = told["advice"]
    assert advice.startswith("strict cannot run a second time: FileExistsError: ")
    assert "{thread_id}.txt" in advice
    assert "Take what is there already for success" in advice


def test_another_result(found: dict[str, Done]) -> None:
    told = found["differing"].json
    assert (told["verdict"], told["wrong"], told["duplicates"]) == ("disproved", 1, 0)
    assert told["cases"][0]["wrong"] == ["done[]"]


def test_what_only_one_run_passes_is_named_and_tried(found: dict[str, Done]) -> None:
    told = found["varying"].json
    assert (told["verdict"], told["killed"], told["not_fired"]) == ("pass", 1, 1)
    assert told["not_reproducible"] == ["in first_run_only, open a file for writing #2"]
    assert told["notes"] == [
        "1 boundary was passed by only one of two runs without a fault; 1 of them did not fire: "
        "in first_run_only, open a file for writing #2."
    ]


def test_durability_is_theirs_to_choose(found: dict[str, Done]) -> None:
    told = found["exit"].json
    assert (told["durability"], told["verdict"], told["killed"]) == ("exit", "pass", 1)


def test_the_examples(found: dict[str, Done]) -> None:
    unsafe, safe = found["unsafe"], found["safe"]
    assert unsafe.code == 10
    text = " ".join(unsafe.out.split())
    assert "node ask_manager: mails happened twice without any kill, when the question was answered" in text
    assert "node settle: refunds happened twice when the process died after the effect" in text
    assert "node settle: mails happened twice when the process died after the effect" in text
    assert "One node has several effects (refunds, mails)" in text
    assert "settle calls uuid4()" in text
    assert unsafe.out.rstrip().endswith("Verdict: disproved.")
    assert (safe.code, safe.json["verdict"], safe.json["nodes"]) == (0, "pass", [])
    assert safe.json["effects"] == {"refunds": 1, "mails": 2, "tickets": 1}
    assert safe.json["killed"] == 7


# --- what it says when it cannot --------------------------------------------------------------------------------------


def test_nothing_counted_is_invalid(found: dict[str, Done]) -> None:
    done = found["nothing counted"]
    assert (done.code, done.json["verdict"], done.json["killed"]) == (10, "invalid", 0)
    assert done.json["reasons"] == ["lines: nothing was counted, also without a fault"]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "unanswered",
            'The graph waits for an answer in ask_after: "sure?". Give it with --resume JSON, one --resume for each '
            "question, in their order.",
        ),
        ("broken", "The graph does not end without a fault either: ValueError: no such order: 7."),
        ("no input", "The graph needs an input. Give it with --input JSON."),
        ("no graph", "nothing is no graph, but an int."),
        (
            "failing factory",
            "failing_factory is a function that does not make a graph: RuntimeError: no model configured.",
        ),
        ("factory of nothing", "factory_of_nothing is a function that returns no graph, but an int."),
        (
            "bad count",
            "The effects 'lines' cannot be counted: ValueError: neither a list nor a count, but str.",
        ),
        (
            "stubborn",
            "stubborn cannot be compiled with another checkpointer (RuntimeError: it is compiled elsewhere); give a "
            "function that takes a checkpointer and returns the graph.",
        ),
        ("no such place", "--only nowhere: no boundary is called that."),
    ],
)
def test_what_has_to_be_changed_is_said_in_one_sentence(found: dict[str, Done], name: str, sentence: str) -> None:
    done = found[name]
    assert (done.code, done.said[-1], done.out) == (2, sentence, "")


def test_a_missing_name_is_answered_with_those_that_are_there(found: dict[str, Done]) -> None:
    said = found["missing name"].said[-1]
    assert said.startswith(f"{KINDS} has no absent; its graphs are: builder, compiled, ")


def test_stories_and_results_are_kept(found: dict[str, Done], tmp_path_factory: pytest.TempPathFactory) -> None:
    out = next(Path(tmp_path_factory.getbasetemp()).glob("world*")) / "out"
    assert (out / "results.json").read_text() == found["builder"].out.rstrip()
    case = found["builder"].words(f"after send, {LATE}")
    killed, resumed, again = ((out / "stories" / name).read_text().splitlines() for name in case["stories"])
    assert killed[0] == "EXECUTE send"
    assert killed[1].startswith("CRASH after node")
    assert resumed == ["EXECUTE send", "EXECUTE rest", "END finished"]
    assert again == ["END finished"]


def test_sigterm_leaves_nothing_behind(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "verify.py", *kind("careful", tmp_path)],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path), "ANYGRAPH_WORLD": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "moments to kill at" in line:
            break
    assert list(tmp_path.glob(f"{PREFIX}*"))
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.rstrip().endswith("verify: stopped; everything that was started is gone")
    assert list(tmp_path.glob(f"{PREFIX}*")) == []
    assert [
        p.pid for p in psutil.process_iter(["environ"]) if (p.info["environ"] or {}).get("TMPDIR") == str(tmp_path)
    ] == []
