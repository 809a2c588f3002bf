"""Histories of Temporal workflows that older releases have begun are replayed by today's workflow.

`temporal/*.json` hold real histories (`WorkflowHistory.to_json`, the workers' names taken out). One that cannot be
replayed would leave its run's workflow stuck after an upgrade: Temporal retries the replay for ever.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from temporalio import workflow
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from runs.temporal.values import WORKFLOW, Order
from runs.temporal.workflow import RunWorkflow

HISTORIES = sorted((Path(__file__).parent / "temporal").glob("*.json"))


def replay(path, kind, **options):
    history = WorkflowHistory.from_json(path.stem, path.read_text())
    asyncio.run(Replayer(workflows=[kind], **options).replay_workflow(history))


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
def test_a_history_of_an_older_release_is_replayed(path):
    replay(path, RunWorkflow)


@workflow.defn(name=WORKFLOW)
class ChangedWorkflow:
    """What a careless change would make of it."""

    @workflow.run
    async def run(self, order: Order) -> None:
        await workflow.sleep(1)


def test_negative_control_a_changed_workflow_is_found():
    with pytest.raises(workflow.NondeterminismError):
        replay(HISTORIES[0], ChangedWorkflow, workflow_runner=UnsandboxedWorkflowRunner())
