"""A ledger over one configured kind, as a service has it, in this process or in one that is killed in its send."""

from contextlib import contextmanager
from pathlib import Path

from onward_ledger.action import Action, Intent
from onward_ledger.ledger import Ledger
from onward_ledger.store import open_store
from tests.support.killed import die


@contextmanager
def ledger_over(folder: Path, provider):
    """A ledger over the SQLite store of a folder; it knows who is gone."""
    opened = open_store(f"sqlite:///{folder / 'ledger.db'}")
    opened.database.migrate()
    opened.liveness.hold()
    ledger = Ledger(opened.store, {provider.kind: provider})
    opened.store.start_instance(
        ledger.instance, lock_key=opened.liveness.lock_key or 1, version="test", host="here", pid=1
    )
    opened.store.lose_gone(ledger.sender)
    try:
        yield ledger
    finally:
        opened.liveness.release()
        opened.database.close()


def perform(ledger: Ledger, wanted: Action) -> Action:
    intent = Intent(key=wanted.key, kind=wanted.kind, resource=wanted.resource, params=wanted.params, epoch=1)
    return ledger.put(intent, propose=False)


def killed_in_the_send(folder: Path, provider_of, arguments: tuple, wanted: Action, window: str) -> None:
    """Perform in this process, and be killed before or after the provider's send."""
    provider = provider_of(folder, *arguments)
    real = provider.send

    def dying(action, deadline):
        if window == "after":
            real(action, deadline)
        die()

    provider.send = dying
    with ledger_over(folder, provider) as ledger:
        perform(ledger, wanted)
