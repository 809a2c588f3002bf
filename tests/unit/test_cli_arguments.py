"""What is typed, as what is meant."""

from datetime import UTC, datetime, timedelta

import pytest

from runs.commands.decide import parse_changes
from runs.commands.start import parse_deadline
from runs.errors import UsageError


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (None, None),
        ("90s", timedelta(seconds=90)),
        ("30m", timedelta(minutes=30)),
        ("2h", timedelta(hours=2)),
        ("1d", timedelta(days=1)),
        ("2030-01-02T03:04:05+02:00", datetime(2030, 1, 2, 1, 4, 5, tzinfo=UTC)),
        ("2030-01-02T03:04", datetime(2030, 1, 2, 3, 4, tzinfo=UTC)),
    ],
)
def test_deadlines(typed, meant):
    assert parse_deadline(typed) == meant


@pytest.mark.parametrize("typed", ["", "soon", "0s", "-5m", "30", "9999999d", "2030-13-01"])
def test_what_is_no_deadline(typed):
    with pytest.raises(UsageError, match="no deadline"):
        parse_deadline(typed)


def test_changes_of_an_approval():
    assert parse_changes([]) == {}
    assert parse_changes(["title=A = B", "note="]) == {"title": "A = B", "note": ""}


@pytest.mark.parametrize("typed", ["digest=abc", "title", "=x", "objects=[]"])
def test_what_an_approval_cannot_change(typed):
    with pytest.raises(UsageError, match="title, note, resource"):
        parse_changes([typed])
