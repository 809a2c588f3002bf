"""What the benchmark says: keys, table, document, command line. Nothing here is measured."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from experiments import bench
from experiments.benchmarks import steps, suite
from experiments.benchmarks.document import BEGIN, COLUMNS, END, table, write_document
from experiments.benchmarks.figures import Measured, amount, quotient
from experiments.benchmarks.machine import Machine
from experiments.benchmarks.report import keep, number, print_results, to_json
from experiments.benchmarks.suite import Results
from experiments.errors import NotRun
from tests.support.markdown import codes, document

DOCUMENT = document("docs/benchmarks.md")


def results(*, ratio: float = 2.0, busy: bool = False) -> Results:
    """Every declared figure, each of three samples; every ratio is the one given."""
    measured = {
        measurement.NAME: Measured(
            figures=tuple(
                quotient(d, [ratio * 3] * 3, [3.0] * 3, [3.0] * 3) if d.unit == "ratio" else amount(d, [1.0, 2.0, 3.0])
                for d in measurement.DECLARED
            ),
            samples={"a subject": [1.0, 2.0, 3.0], "onward, rows of onward.events": [4.0, 4.0, 4.0]},
        )
        for measurement in suite.MEASUREMENTS
    }
    return Results(
        rounds=3,
        machine=Machine(cores=2, system="Linux x86_64", load=1.5 if busy else 0.1, busy=busy),
        server={"postgres": "18.6", "fsync": "on"},
        versions={"python": "3.11.7", "langgraph": "1.2.24"},
        seconds=12.34,
        measured=measured,
    )


def test_keys_are_declared_once_and_say_what_they_are():
    declared = suite.declared()
    assert len({d.key for d in declared}) == len(declared)
    for d in declared:
        assert d.key.endswith("_ratio") == (d.unit == "ratio"), d.key
        assert d.says and not d.says.endswith("."), d.key
    assert {d.key: d.target for d in declared if d.target} == {
        "driver_ratio": 1.3,
        "action_ratio": 1.5,
        "step_cost_ratio": 1.15,
        "step_late_ratio": 1.15,
    }


def test_measurements_go_by_the_names_of_the_command_line():
    assert tuple(measurement.NAME for measurement in suite.MEASUREMENTS) == bench.NAMES


def test_json_has_every_figure_and_the_interval_of_every_ratio():
    found = json.loads(json.dumps(to_json(results())))
    for d in suite.declared():
        assert isinstance(found[d.key], float | int)
        if d.unit == "ratio":
            assert found[d.key] == found[f"{d.key}_low"] == found[f"{d.key}_high"] == 2.0
        assert found["figures"][d.key]["ours"]["samples"] == 3
    assert found["missed"] == ["driver_ratio", "action_ratio", "step_cost_ratio", "step_late_ratio"]
    assert found["rows_by_table"] == {"onward, rows of onward.events": 4.0}
    assert found["machine"]["fsync"] == "on"
    assert to_json(results(ratio=1.1))["missed"] == []


def test_a_reader_sees_targets_and_a_warning_on_a_busy_machine():
    said = io.StringIO()
    print_results(results(busy=True), said)
    text = " ".join(said.getvalue().split())
    assert "≤ 1.3: missed" in text
    assert "The machine is busy (load 1.5 on 2 cores)" in text
    assert "fsync on" in text
    said = io.StringIO()
    print_results(results(ratio=1.1), said)
    assert "missed" not in said.getvalue().lower()
    assert "busy" not in said.getvalue()


@pytest.mark.parametrize(
    ("value", "shown"), [(0.12345, "0.123"), (1.234, "1.23"), (99.5, "99.50"), (12345.6, "12,346"), (0.0, "0")]
)
def test_as_many_digits_as_mean_something(value, shown):
    assert number(value) == shown


def test_samples_are_kept_as_lines(tmp_path):
    keep(results(), tmp_path / "out")
    lines = [json.loads(line) for line in (tmp_path / "out/samples.jsonl").read_text().splitlines()]
    assert len(lines) == len(suite.MEASUREMENTS) * 6
    assert lines[1] == {"measurement": "driver", "subject": "a subject", "round": 2, "value": 2.0}
    assert json.loads((tmp_path / "out/results.json").read_text()) == to_json(results())


# --- the document -----------------------------------------------------------------------------------------------------


def test_the_document_is_written_between_its_markers(tmp_path):
    path = tmp_path / "doc.md"
    path.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write_document(results(), path)
    write_document(results(busy=True), path)
    text = path.read_text()
    assert text.startswith(f"before\n{BEGIN}\n") and text.endswith(f"{END}\nafter\n")
    assert "old" not in text and text.count("`driver_ratio`") >= 1
    assert table(results(busy=True)) in text and "busy" in text


def test_a_document_without_markers_is_left_alone(tmp_path):
    path = tmp_path / "doc.md"
    path.write_text("nothing")
    with pytest.raises(NotRun, match="both markers"):
        write_document(results(), path)
    assert path.read_text() == "nothing"


def test_the_document_names_the_figures_that_are_measured():
    rows = DOCUMENT.table(*COLUMNS)
    assert [codes(row[0]) for row in rows] == [[d.key] for d in suite.declared()]
    assert [row[-1] for row in rows] == [d.says for d in suite.declared()]
    assert all(row[1] for row in rows)


def test_commands_of_the_document_exist():
    shown = [line for block in DOCUMENT.blocks("sh") for line in block.splitlines() if "experiments/bench.py" in line]
    options = {option for line in shown for option in re.findall(r"(--[\w-]+)", line.partition(" # ")[0])}
    known = set(bench._parser()._option_string_actions)
    assert options <= known
    assert options >= known - {"-h", "--help", "--rounds"}
    named = set(re.findall(r"experiments/bench\.py.*--only (\w+)", "\n".join(shown)))
    assert named <= set(bench.NAMES)


# --- the command line -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["--rounds", "1"],
        ["--rounds", "many"],
        ["--only", "nothing"],
        ["--write-docs", "--only", "driver"],
        ["--write-docs", "--profile"],
        ["extra"],
    ],
)
def test_what_makes_no_sense_is_refused(monkeypatch, capsys, arguments):
    monkeypatch.setattr("sys.argv", ["bench.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        bench.main()
    assert ended.value.code == 2
    assert "bench.py: error: " in capsys.readouterr().err


@pytest.mark.parametrize(("arguments", "rounds"), [([], 30), (["--quick"], 4), (["--quick", "--rounds", "9"], 9)])
def test_rounds(monkeypatch, arguments, rounds):
    monkeypatch.setattr("sys.argv", ["bench.py", *arguments])
    assert bench._parsed().rounds == rounds


# --- steps ------------------------------------------------------------------------------------------------------------


def test_a_step_is_measured_from_its_beginning_to_the_next_ones(monkeypatch):
    now, wal = [0.0], [1000]
    monkeypatch.setattr(steps.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(steps, "wal_position", lambda connection: wal[0])
    stamps = steps.Stamps(None, 5)
    for step, took in enumerate((0.010, 0.010, 0.500, 0.020, 0.0), 1):
        stamps.seen(step)
        now[0] += took
        wal[0] += 100
    assert stamps.per_step == {
        "ms": pytest.approx(15),  # the median: one slow step is one slow step
        "WAL bytes": 100,
        "first ms": pytest.approx(15),
        "last ms": pytest.approx(15),
    }


def test_the_bench_is_told_where_its_modules_are():
    """Run as a file, the folder `experiments` itself must not be where names are looked up first."""
    text = Path(bench.__file__).read_text(encoding="utf-8")
    assert text.index("sys.path[0] = ") < text.index("from experiments.")
