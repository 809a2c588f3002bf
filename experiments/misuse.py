"""What others do that they must not, or do twice: processes beside the driver, with a story of their own.

impostor     asks for each recorded action again, as it is and with other parameters
stray wake   resumes the graph with an approval that nobody gave
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

from experiments.story import ACCEPTED, REFUSED, REUSE, Story
from runs.settings import Settings


def impostor(story: Story, run_id: str, settings: Settings) -> str:
    """For each action of the run: the same request again is answered with its receipt; a changed one is refused."""
    import httpx

    from experiments.narrator import receipt_name
    from runs import local_ledger

    assert settings.ledger_token is not None
    headers = {"Authorization": f"Bearer {settings.ledger_token.get_secret_value()}"}
    with local_ledger.connect(settings) as client:
        actions = client.actions(run_id)
    with httpx.Client(base_url=str(settings.ledger_url), headers=headers, trust_env=False, timeout=30) as http:
        for action in actions:
            request: dict[str, Any] = {
                **{name: getattr(action, name) for name in ("run_id", "step", "slot", "rev", "kind", "resource")},
                "params": action.params,
                "epoch": action.epoch,
            }
            same = http.put(f"/v1/actions/{action.action_id}", json=request)
            if same.is_success and same.json().get("receipt"):
                story.tell(REUSE + receipt_name(action.kind, same.json()["receipt"]))
            request["params"] = action.params | {"digest": "0" * 64}
            other = http.put(f"/v1/actions/{action.action_id}", json=request)
            said = other.json()
            story.tell(f"{ACCEPTED}{action.kind}" if other.is_success else f"{REFUSED}{said.get('code')}")
    return f"{len(actions)} actions"


def wake_astray(story: Story, run_id: str, settings: Settings, role: Any) -> str:
    """Drive a run that waits for a person as if an approval had come: only the wake-up says so, the ledger does not."""
    from experiments.workload import drive_onward
    from runs import drive, registry
    from runs.store import open_store

    with closing(open_store(settings).database("onward experiment")) as database:
        registry.queue_decided(database, run_id)
    decision_of = drive.decision_of
    said: list[str] = []

    def approving(*arguments: Any) -> dict[str, Any] | None:
        """One wake-up says so; who asks again gets what the ledger holds."""
        if said:
            return decision_of(*arguments)
        said.append("approve")
        return {"decision": "approve", "principal": "nobody"}

    drive.decision_of = approving
    return drive_onward(story, run_id, settings, role)
