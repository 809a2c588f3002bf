"""One run with everything around it, driven in the test's own process."""

from __future__ import annotations

from runs import events, registry
from runs.drive import drive
from tests.support.runs_world import build, effects_in, new_run, parts

ALL = ["plan", "analyze", "write_draft", "test", "deliver"]


class World:
    """One run with everything around it."""

    def __init__(self, store, database, objects, ledger, folder):
        self.store, self.database, self.objects, self.ledger, self.folder = store, database, objects, ledger, folder
        self.run_id = new_run(database, objects, folder, store=store.kind).run_id

    def parts(self, **more):
        return parts(self.store, self.ledger, self.objects, self.folder, effects=self.folder / "effects", **more)

    def drive(self, **more):
        return drive(self.run_id, self.parts(**more))

    @property
    def run(self):
        return registry.get(self.database, self.run_id)

    @property
    def effects(self):
        return effects_in(self.folder / "effects")

    def events(self, *kinds):
        return [e for e in events.read_all(self.database, self.run_id) if e.kind in kinds]

    def statuses(self):
        return [e.data["to"] for e in self.events("status")]

    @property
    def publication(self):
        return next(a for a in self.ledger.actions.values() if a.step == "deliver")


def asking():
    return build(asks_person=True)


def failing(error, place="in write_draft", times=1):
    left = [times]

    def fail(_):
        if left[0]:
            left[0] -= 1
            raise error

    return {place: fail}
