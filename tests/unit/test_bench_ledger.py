"""The ledger's benchmark: keys, targets, its wire, its document. Nothing here is measured."""

from __future__ import annotations

import json
import re
import socket
import threading
from contextlib import closing

import pytest

from experiments import bench_ledger
from experiments.benchmarks import suite
from experiments.benchmarks.document import COLUMNS, DOCUMENT, LEDGER, write_document
from experiments.benchmarks.figures import Declared, Figure, Measured, amount, tail
from experiments.benchmarks.spread import Spread
from experiments.errors import NotRun
from experiments.ledger_benchmarks import fresh, load, one_id, replay, size
from experiments.ledger_benchmarks.place import key_of, put_action, right
from experiments.ledger_benchmarks.wire import Reply, Wire, request, take
from tests.support.markdown import document
from tests.unit.test_bench_report import results

MEASUREMENTS = (fresh, replay, load, one_id, size)


def test_keys_are_declared_once_and_clash_with_no_other_benchmark():
    declared = [d for measurement in MEASUREMENTS for d in measurement.DECLARED]
    keys = [d.key for d in declared]
    assert len(set(keys)) == len(keys)
    assert not set(keys) & {d.key for d in suite.declared()}
    for d in declared:
        assert d.key.endswith("_ratio") == (d.unit == "ratio"), d.key
        assert d.says and not d.says.endswith("."), d.key


def test_measurements_go_by_the_names_of_the_command_line():
    assert tuple(measurement.NAME for measurement in MEASUREMENTS) == bench_ledger.NAMES


def test_what_is_aimed_at():
    targets = {d.key: (d.target, d.least) for m in MEASUREMENTS for d in m.DECLARED if d.target is not None}
    assert targets["fresh_ratio"] == (1.5, False)
    assert targets["actions_per_second"] == (500, True)
    assert [targets[key] for key in ("replay_wal_bytes", "replay_rows", "replay_writes")] == [(0, False)] * 3
    assert targets["sends_of_one_id"] == targets["receipts_of_one_id"] == (1, False)
    assert {key for key in targets if key.startswith("fresh_against_")} == {d.key for d in fresh.AGAINST.values()}
    assert {targets[d.key] for d in size.GROWN.values()} == {(size.FLAT, False)}


@pytest.mark.parametrize(("value", "least", "met"), [(499, True, False), (500, True, True), (500, False, True)])
def test_a_target_can_be_the_least(value, least, met):
    declared = Declared(key="k", unit="actions/s", says="s", target=500, least=least)
    assert amount(declared, [value]).met is met


def test_a_tail_is_a_percentile():
    figure = tail(Declared(key="k", unit="ms", says="s"), [float(n) for n in range(101)], 0.95)
    assert figure.value == 95 and figure.ours.median == 50


def test_figures_of_what_is_not_installed_are_left_out_and_no_other_order_is_taken():
    shown = [Figure(declared=d, value=1.0, ours=Spread.of([1.0])) for d in fresh.DECLARED if "once" not in d.key]
    suite._check_declared(fresh, Measured(figures=tuple(shown), samples={}))
    with pytest.raises(AssertionError, match="fresh"):
        suite._check_declared(fresh, Measured(figures=tuple(reversed(shown)), samples={}))
    stranger = amount(Declared(key="stranger", unit="ms", says="s"), [1.0])
    with pytest.raises(AssertionError, match="fresh"):
        suite._check_declared(fresh, Measured(figures=(stranger,), samples={}))


# --- the wire ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [b"Content-Length", b"content-length"])
def test_an_answer_is_taken_when_it_is_whole_and_the_next_one_stays(length):
    whole = b"HTTP/1.1 202 Accepted\r\nX: y\r\n" + length + b': 7\r\n\r\n{"a":1}'
    buffer = bytearray()
    for byte in whole[:-1]:
        buffer.append(byte)
        assert take(buffer) is None
    buffer += whole[-1:] + b"HTTP/1.1 200"
    assert take(buffer) == Reply(202, b'{"a":1}')
    assert bytes(buffer) == b"HTTP/1.1 200"


def test_a_connection_that_ends_is_no_answer(unused_listener):
    server, port = unused_listener
    threading.Thread(target=lambda: server.accept()[0].close(), daemon=True).start()
    with closing(Wire(port)) as wire, pytest.raises(ConnectionError):
        wire.ask(request("GET", "/health", "token"))


@pytest.fixture
def unused_listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server, server.getsockname()[1]


def test_a_request_belongs_to_its_id():
    run_id = "7f0f3b8e-6a5d-4a53-9d7e-0c1a2b3c4d5e"
    head, _, body = put_action("the token", run_id, "charge-1").partition(b"\r\n\r\n")
    assert head.startswith(f"PUT /v1/actions/{key_of(run_id, 'charge-1').action_id} HTTP/1.1\r\n".encode())
    assert b"authorization: Bearer the token" in head
    assert int(re.search(rb"content-length: (\d+)", head)[1]) == len(body)
    assert json.loads(body)["run_id"] == run_id


def test_a_refusal_is_not_measured():
    with pytest.raises(NotRun, match="409"):
        right(Reply(409, b'{"code":"in-progress"}'))


# --- the document -----------------------------------------------------------------------------------------------------


def test_commands_of_the_document_exist():
    blocks = document("docs/benchmarks.md").blocks("sh")
    shown = [line for block in blocks for line in block.splitlines() if "bench_ledger.py" in line]
    said = [line.partition("bench_ledger.py")[2].partition(" # ")[0] for line in shown]
    known = set(bench_ledger._parser()._option_string_actions)
    assert {option for line in said for option in re.findall(r"(--[\w-]+)", line)} <= known
    assert set(re.findall(r"--only (\w+)", "".join(said))) <= set(bench_ledger.NAMES)
    assert len(shown) == 3


def test_each_program_writes_its_own_table(tmp_path):
    path = tmp_path / "doc.md"
    path.write_text(DOCUMENT.read_text(encoding="utf-8"), encoding="utf-8")
    write_document(results(), path, LEDGER)
    text = path.read_text(encoding="utf-8")
    assert text.count(f"| {LEDGER.first} |") == 1
    assert text.count(f"| {COLUMNS[0]} |") == 1
    before = DOCUMENT.read_text(encoding="utf-8").partition(LEDGER.begin)[0]
    assert text.startswith(before)
