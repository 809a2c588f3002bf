"""Boundaries: numbered by thread and label, on disk before the process goes on, grouped where nothing happens."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from experiments.boundaries import Boundary, Watch, moments, read_recording, recorder, role_of
from experiments.recordings import BY_THE_CLOCK, Recording


def before(label: str, occurrence: int = 1, role: str = "main") -> Boundary:
    return Boundary(role=role, label=label, occurrence=occurrence)


def after(label: str, occurrence: int = 1, role: str = "main") -> Boundary:
    return Boundary(role=role, label=label, occurrence=occurrence, side="after")


def in_thread(name: str, work) -> None:
    thread = threading.Thread(target=work, name=name)
    thread.start()
    thread.join()


# --- the watch --------------------------------------------------------------------------------------------------------


@pytest.fixture
def passed() -> list[Boundary]:
    return []


@pytest.fixture
def watch(passed: list[Boundary]) -> Watch:
    return Watch(passed.append)


def test_operations_are_numbered_by_role_and_label(watch: Watch, passed: list[Boundary]) -> None:
    for label in ("commit", "insert", "commit"):
        with watch.operation(label):
            pass
    in_thread("ledger-send_0", lambda: watch.begin("commit").end())
    assert passed == [
        *(before("commit"), after("commit")),
        *(before("insert"), after("insert")),
        *(before("commit", 2), after("commit", 2)),
        *(before("commit", role="ledger-send"), after("commit", role="ledger-send")),
    ]


def test_the_boundary_is_passed_in_the_thread_that_does_it_and_before_it_is_done() -> None:
    said: list[object] = []
    watch = Watch(lambda boundary: said.append((boundary.side, threading.current_thread().name)))

    def work() -> None:
        with watch.operation("x"):
            said.append("done")

    in_thread("worker", work)
    assert said == [("before", "worker"), "done", ("after", "worker")]


def test_an_operation_that_fails_is_over_too(watch: Watch, passed: list[Boundary]) -> None:
    with pytest.raises(ValueError), watch.operation("x"):
        raise ValueError
    assert passed == [before("x"), after("x")]


def test_an_operation_ends_once(watch: Watch, passed: list[Boundary]) -> None:
    operation = watch.begin("x")
    operation.end()
    operation.end()
    operation.end(real=False)
    watch.begin("x")
    assert passed == [before("x"), after("x"), before("x", 2)]


def test_what_is_taken_back_has_no_end_and_no_other_has_its_number(watch: Watch, passed: list[Boundary]) -> None:
    watch.begin("commit").end(real=False)
    watch.begin("commit").end()
    assert passed == [before("commit"), before("commit", 2), after("commit", 2)]


def test_a_point_has_a_name_and_one_side(watch: Watch, passed: list[Boundary]) -> None:
    watch.point("deliver: after effect")
    watch.point("deliver: after effect")
    assert [(boundary.side, boundary.occurrence) for boundary in passed] == [("at", 1), ("at", 2)]
    assert str(passed[0]) == "deliver: after effect"


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("MainThread", "main"),
        ("ThreadPoolExecutor-3_1", "background"),
        ("asyncio_0", "background"),
        ("AnyIO worker thread", "request"),
        ("ledger-send", "send"),
        ("pool-2-worker-1", "pool"),
        ("heartbeat", "heartbeat"),
        ("heartbeat-42", "heartbeat"),
        ("Thread-7 (serve)", "Thread"),
        ("12", "thread"),
    ],
)
def test_a_role_has_no_numbers_that_differ_from_process_to_process(name: str, role: str) -> None:
    assert role_of(threading.Thread(name=name)) == role


def test_a_boundary_in_words() -> None:
    assert str(before("commit")) == "before commit (main)"
    assert str(after("commit", 3, "background")) == "after commit #3 (background)"


# --- recordings -------------------------------------------------------------------------------------------------------


def recorded(tmp_path: Path, work) -> tuple[Boundary, ...]:
    work(Watch(recorder(tmp_path / "recording")))
    return read_recording(tmp_path / "recording")


def test_a_recording_is_what_was_passed(tmp_path: Path) -> None:
    def work(watch: Watch) -> None:
        with watch.operation("send PUT /v1/actions/*"):
            pass
        watch.point("here")

    sent = "send PUT /v1/actions/*"
    point = Boundary(role="main", label="here", side="at")
    assert recorded(tmp_path, work) == (before(sent), after(sent), point)
    assert read_recording(tmp_path / "never begun") == ()


def test_it_is_on_disk_before_the_process_goes_on(tmp_path: Path) -> None:
    passing = recorder(tmp_path / "recording")
    passing(before("x"))
    assert (tmp_path / "recording").read_text() == '["main", "x", 1, "before"]\n'


def test_what_was_taken_back_or_never_ended_is_no_boundary(tmp_path: Path) -> None:
    def work(watch: Watch) -> None:
        watch.begin("rollback").end(real=False)
        with watch.operation("insert"):
            pass
        watch.begin("connect")  # the process ended in it

    assert recorded(tmp_path, work) == (before("insert"), after("insert"))


# --- moments ----------------------------------------------------------------------------------------------------------


def grouped(*recording: Boundary) -> list[list[Boundary]]:
    return [list(moment.boundaries) for moment in moments(recording)]


def test_between_two_operations_of_a_thread_there_is_one_moment() -> None:
    x, y = (before("x"), after("x")), (before("y"), after("y"))
    assert grouped(*x, *y) == [[before("x")], [after("x"), before("y")], [after("y")]]
    assert [str(moment) for moment in moments((*x, *y))] == [
        "before x (main)",
        "after x, before y (main)",
        "after y (main)",
    ]
    assert moments((*x, *y))[1].boundary == before("y")  # the last of them: up to there nothing has happened


def test_a_group_says_the_numbers_of_its_operations() -> None:
    (_, between, _) = moments((before("x", 2), after("x", 2), before("x", 3), after("x", 3)))
    assert str(between) == "after x #2, before x #3 (main)"


def test_operations_of_other_threads_part_no_moment() -> None:
    other = (before("send", role="send"), after("send", role="send"))
    recording = (before("x"), after("x"), *other, before("y"), after("y"))
    assert grouped(*recording) == [
        [before("x")],
        [after("x"), before("y")],
        [after("y")],
        [other[0]],
        [other[1]],
    ]


def test_inside_an_operation_that_is_open_every_boundary_is_a_moment_of_its_own() -> None:
    nested = (before("outer"), before("inner"), after("inner"), after("outer"))
    assert grouped(*nested) == [[boundary] for boundary in nested]
    overlapping = (before("a"), before("b"), after("a"), after("b"), before("c"), after("c"))  # two threads of one role
    assert grouped(*overlapping) == [
        [before("a")],
        [before("b")],
        [after("a")],
        [after("b"), before("c")],
        [after("c")],
    ]


def test_what_was_taken_back_hides_no_moment(tmp_path: Path) -> None:
    """A commit of nothing, and later one of something: the moment before that one is killed like all others."""

    def work(watch: Watch) -> None:
        watch.begin("commit").end(real=False)
        watch.begin("insert").end()
        watch.begin("commit").end()

    assert grouped(*recorded(tmp_path, work)) == [
        [before("insert")],
        [after("insert"), before("commit", 2)],
        [after("commit", 2)],
    ]


def test_points_are_no_moments() -> None:
    at = Boundary(role="main", label="here", side="at")
    assert grouped(before("x"), at, after("x"), at) == [[before("x")], [after("x")]]


def test_every_boundary_belongs_to_one_moment() -> None:
    recording = [side(label, n, role) for role in "ab" for n in (1, 2) for label in "xyz" for side in (before, after)]
    found = [boundary for moment in moments(recording) for boundary in moment.boundaries]
    assert sorted(found) == sorted(recording)


# --- recordings of a process ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", BY_THE_CLOCK)
def test_of_what_the_clock_does_the_first_counts_since_time_decides_about_the_others(role: str) -> None:
    beats = [side("update leases", n, role) for n in (1, 2, 3) for side in (before, after)]
    point = Boundary(role="main", label="deliver: after effect", side="at")
    recording = Recording.of([before("x"), *beats, point, after("x")])
    assert recording.boundaries == (before("x"), *beats[:2], after("x"))
    assert [moment.boundary for moment in recording.role(role)] == beats[:2]
    assert [moment.boundary for moment in recording.role("main")] == [before("x"), after("x")]
    assert recording.role("send") == ()
    assert recording.shape == ("before x (main)", *map(str, beats[:2]), "after x (main)")


def test_how_often_a_pool_connects_is_kept_unless_it_depends_on_which_requests_meet() -> None:
    connects = [side("connect to Postgres", n, "pool") for n in (1, 2) for side in (before, after)]
    assert Recording.of(connects).boundaries == tuple(connects)
    assert Recording.of(connects, once=("pool",)).boundaries == tuple(connects[:2])


def test_what_only_a_slow_machine_does_is_left_out() -> None:
    clearing = [side("connect to Postgres", 1, "claim-clearer") for side in (before, after)]
    assert Recording.of([before("x"), *clearing, after("x")]).boundaries == (before("x"), after("x"))
