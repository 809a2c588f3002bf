"""A decision is recorded in the ledger that holds the run's proposal, or nowhere."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest

from onward_ledger.providers.publish import ReportPublish
from runs import local_ledger
from runs.commands import decide
from runs.errors import OtherStore
from tests.support.runs_values import a_run


@pytest.mark.parametrize(
    "elsewhere", [{"ledger": "postgresql://other"}, {"objects": "s3://other"}, {"store": "sqlite"}]
)
def test_a_run_of_other_stores_is_refused_before_anything_is_recorded(monkeypatch, elsewhere):
    run = replace(a_run(), store="postgres", objects="file:///here", ledger="local")
    monkeypatch.setattr(local_ledger, "serves", lambda _: ["postgres", "local", "file:///here"])
    monkeypatch.setattr(local_ledger, "connect", lambda _: pytest.fail("the ledger was asked"))

    @contextmanager
    def found(run_id, store):
        yield SimpleNamespace(settings=None), replace(run, **elsewhere)

    monkeypatch.setattr(decide, "found", found)
    monkeypatch.setattr(decide, "check_may_act", lambda opened: None)
    with pytest.raises(OtherStore, match="Use the settings that it was made with"):
        decide.decide(run.run_id, "approve", resume=True, store=None, output="table")


def test_what_can_be_edited_is_what_the_ledger_lets_be_edited():
    assert set(decide.EDITABLE) == ReportPublish.editable
