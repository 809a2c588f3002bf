"""Clocks and the order of checkpoint ids."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base import id as ids

from runs.clock import LARGEST_SKEW_SECONDS, check_clock, follow_head
from runs.errors import ClockSkew

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def off_by(seconds, *, on_the_way=0.0):
    """When a database was asked whose clock is off by some seconds, what it said, and when."""
    way = timedelta(seconds=on_the_way)
    return NOW - way, NOW + timedelta(seconds=seconds), NOW + way


@pytest.fixture(autouse=True)
def floor(monkeypatch):
    """LangGraph's private floor, put back after the test. That it exists is what the test needs to know."""
    assert hasattr(ids, "_last_v6_timestamp")
    monkeypatch.setattr(ids, "_last_v6_timestamp", None)


def id_at(instant: datetime) -> str:
    """A checkpoint id as a writer with this clock makes it."""
    ticks = int(instant.timestamp() * 1e7) + 0x01B21DD213814000
    ids._last_v6_timestamp = ticks
    made = str(ids.uuid6(clock_seq=-2))
    ids._last_v6_timestamp = None
    return made


@pytest.mark.parametrize("seconds", [0, LARGEST_SKEW_SECONDS - 0.5, -LARGEST_SKEW_SECONDS + 0.5])
def test_a_small_difference_is_no_reason(seconds):
    check_clock(*off_by(seconds))


@pytest.mark.parametrize(("seconds", "word"), [(3600, "behind"), (-3600, "ahead of"), (2.5, "behind")])
def test_a_large_difference_is_refused_and_named(seconds, word):
    with pytest.raises(ClockSkew, match=f"{abs(seconds):.1f} seconds {word} the database's"):
        check_clock(*off_by(seconds))


def test_the_time_that_the_question_took_says_nothing():
    check_clock(*off_by(LARGEST_SKEW_SECONDS + 1, on_the_way=1.5))
    with pytest.raises(ClockSkew):
        check_clock(*off_by(LARGEST_SKEW_SECONDS + 1, on_the_way=0.5))


def test_ids_go_on_behind_the_head_also_when_this_clock_is_behind():
    head = id_at(datetime.now(UTC) + timedelta(hours=1))
    assert empty_checkpoint()["id"] < head  # the control: without the seed nobody would see our checkpoints
    follow_head(head)
    first, second = empty_checkpoint()["id"], empty_checkpoint()["id"]
    assert head < first < second


def test_a_floor_that_is_higher_stays():
    later = id_at(datetime.now(UTC) + timedelta(hours=1))
    follow_head(later)
    follow_head(id_at_keeping_floor())
    assert empty_checkpoint()["id"] > later


def id_at_keeping_floor() -> str:
    before = ids._last_v6_timestamp
    made = id_at(datetime.now(UTC) - timedelta(hours=1))
    ids._last_v6_timestamp = before
    return made


def test_a_head_far_in_the_future_is_followed_at_once():
    head = id_at(datetime.now(UTC) + timedelta(days=1))
    began = time.monotonic()
    follow_head(head)
    assert time.monotonic() - began < 1, "nobody waits for that time"
    assert empty_checkpoint()["id"] > head
