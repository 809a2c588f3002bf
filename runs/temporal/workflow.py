"""One workflow per run. It decides when the run is looked at; what is done then, the run's row and its epoch decide.

    drive ─▶ ended                  the workflow ends with the outcome, whatever that is
      ▲  ├─▶ waits for a person     until the signal `decided`, or the next look at it
      │  ├─▶ queued for later       until the row's time has come
      └──┴─▶ handed back            at once, by any worker that has the version

The signal `cancel` cancels the run. Temporal's own cancellation of the workflow does not: it only hands the run back.
Whatever changes in here must replay the histories of older workflows: a test replays one of each release.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from temporalio import exceptions, workflow
from temporalio.common import RetryPolicy

with workflow.unsafe.imports_passed_through():
    from runs.temporal.values import (
        CANCEL,
        DECIDED,
        DRIVE,
        LOOK,
        WORKFLOW,
        Cancel,
        CancelOrder,
        Left,
        Order,
        Turn,
        drives_queue,
    )

# Tried again for ever, quickly, by any worker: an activity owns no effect. Whether a step runs again and whether an
# effect may happen is decided by epoch and ledger; how often, by the run's own budget.
FREELY = RetryPolicy(
    initial_interval=timedelta(milliseconds=100), backoff_coefficient=2.0, maximum_interval=timedelta(seconds=10)
)
# Temporal wants a bound; a run has its own deadline in its row, and missed heartbeats tell of a dead worker.
NO_BOUND = timedelta(days=3650)
SHORT_SECONDS = 30.0


@workflow.defn(name=WORKFLOW)
class RunWorkflow:
    """See the module."""

    def __init__(self) -> None:
        self._signalled = False
        self._left: Left | None = None

    @workflow.run
    async def run(self, order: Order) -> Left:
        """Until the run has ended."""
        while True:
            signalled, self._signalled = self._signalled, False
            left = self._left = await self._drive(order, signalled)
            order = replace(order, workflow_version=left.workflow_version)
            if left.ended:
                await workflow.wait_condition(workflow.all_handlers_finished)
                return left
            await self._until_news(order.poll_seconds if left.wake_seconds is None else left.wake_seconds)
            await self._shorten(order)

    async def _shorten(self, order: Order) -> None:
        """Begin again with an empty history when this one has grown long: a run may wait for months."""
        if workflow.info().is_continue_as_new_suggested():
            await workflow.wait_condition(workflow.all_handlers_finished)
            if not self._signalled:
                workflow.continue_as_new(order)

    async def _drive(self, order: Order, signalled: bool) -> Left:
        try:
            return await workflow.execute_activity(
                DRIVE,
                Turn(run_id=order.run_id, signalled=signalled),
                result_type=Left,
                task_queue=drives_queue(order.queue, order.workflow_version),
                schedule_to_start_timeout=timedelta(seconds=order.poll_seconds),
                start_to_close_timeout=NO_BOUND,
                heartbeat_timeout=timedelta(seconds=order.heartbeat_seconds),
                retry_policy=FREELY,
                cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            )
        except exceptions.ActivityError as error:
            if not _nobody_came(error):
                raise
            self._signalled = self._signalled or signalled
            return await self._look(order)

    async def _look(self, order: Order) -> Left:
        """No worker of that version has taken it yet: is it still the run's version?"""
        return await workflow.execute_activity(
            LOOK,
            order.run_id,
            result_type=Left,
            start_to_close_timeout=timedelta(seconds=SHORT_SECONDS),
            retry_policy=FREELY,
        )

    async def _until_news(self, seconds: float) -> None:
        if seconds > 0:
            try:
                await workflow.wait_condition(lambda: self._signalled, timeout=seconds)
            except TimeoutError:
                return

    @workflow.signal(name=DECIDED)
    def decided(self) -> None:
        """Somebody has decided, or settled an unknown outcome. A hint: the ledger holds what was said."""
        self._signalled = True

    @workflow.signal(name="cancel")
    async def cancel(self, asked: Cancel) -> None:
        """Cancel the run. Who drives it hears of it from the row and the ledger, and confirms that it has stopped."""
        order = CancelOrder(run_id=workflow.info().workflow_id, principal=asked.principal, reason=asked.reason)
        await workflow.execute_activity(
            CANCEL, order, start_to_close_timeout=timedelta(seconds=SHORT_SECONDS), retry_policy=FREELY
        )
        self._signalled = True

    @workflow.query
    def standing(self) -> Left | None:
        """How the run stood when it was left last; null before that."""
        return self._left


def _nobody_came(error: exceptions.ActivityError) -> bool:
    cause = error.cause
    return isinstance(cause, exceptions.TimeoutError) and cause.type is exceptions.TimeoutType.SCHEDULE_TO_START
