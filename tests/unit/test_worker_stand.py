"""How a run stands to a driver process of a worker, from its row."""

from __future__ import annotations

import os
from dataclasses import fields
from datetime import UTC, datetime, timedelta

import pytest

from runs.crew import Stand
from runs.holder import host_name
from runs.registry import Run, Status
from runs.worker import stand

NOW = datetime(2026, 1, 2, tzinfo=UTC)
PID = os.getpid()


def a_run(
    status: Status, *, pid: int | None = PID, host: str | None = None, alive: bool = True, left: float = 5.0
) -> Run:
    """A run with a lease of which so many seconds are left, or without one (`pid` None)."""
    row = dict.fromkeys((field.name for field in fields(Run)), None)
    held = {"pid": pid, "host": host or host_name(), "holder_id": 7, "expires_at": NOW + timedelta(seconds=left)}
    row |= {"status": status, "now_at": NOW, "holder_alive": alive and pid is not None}
    return Run(**row | (held if pid is not None else {}))


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (a_run(Status.RUNNING), Stand.HELD),
        (a_run(Status.CANCEL_REQUESTED), Stand.HELD),
        (a_run(Status.RUNNING, alive=False), Stand.HELD),  # its session was lost; it may come back
        (a_run(Status.RUNNING, left=-1.0), Stand.HUNG),
        (a_run(Status.RUNNING, left=-1.0, alive=False), Stand.HUNG),  # also where its session is lost
        (a_run(Status.RUNNING, host="elsewhere"), Stand.LOST),  # the same number on another machine
        (a_run(Status.RUNNING, pid=PID + 1), Stand.LOST),
        (a_run(Status.RUNNING, pid=PID + 1, left=-1.0), Stand.FREE),
        (a_run(Status.RUNNING, pid=PID + 1, alive=False), Stand.FREE),
        (a_run(Status.QUEUED, pid=None), Stand.FREE),
        (a_run(Status.CANCEL_REQUESTED, pid=None), Stand.FREE),
        (a_run(Status.WAITING_HUMAN, pid=None), Stand.LOST),
        (a_run(Status.SUCCEEDED, pid=None), Stand.LOST),
    ],
)
def test_stand(run: Run, expected: Stand) -> None:
    assert stand(run, PID) is expected
