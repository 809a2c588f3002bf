"""The five steps as somebody's own graph, for `onward worker --graph`. The effect is asked of the ledger in its node.

Onward adds to the configuration which epoch drives, and to the environment where the ledger is.
"""

from __future__ import annotations

import os
from typing import Any

from langchain_core.runnables import RunnableConfig

from experiments.recovering.graph import five_steps
from onward_ledger.action import ActionKey, Status
from onward_ledger.client import LedgerClient
from onward_ledger.errors import UnknownOutcome

KIND = "thing.make"
STEP, SLOT = "step_3", "thing"


def key(run_id: str) -> ActionKey:
    """The effect's identity: the same in every attempt."""
    return ActionKey(run_id, STEP, SLOT)


def _perform(run_id: str, config: RunnableConfig) -> dict[str, Any]:
    epoch = (config.get("configurable") or {})["onward_epoch"]
    with LedgerClient(os.environ["LEDGER_URL"], os.environ["LEDGER_TOKEN"]) as ledger:
        action = ledger.perform(key(run_id), KIND, lambda: (f"things/{run_id}", {}), epoch=epoch)
    if action.status is not Status.SUCCEEDED:
        raise UnknownOutcome(f"Whether the thing of {run_id} was made is {action.status}.", action=action)
    return {"action_id": action.action_id, "receipt": action.receipt}


graph = five_steps(_perform)
