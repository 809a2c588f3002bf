"""The product's service, with kinds of effects that cost nothing, so that what is measured is the ledger.

    bench.nothing   class idempotent; the send returns at once
    bench.counted   class idempotent; each send takes a moment and is a line in a file
    bench.opaque    never sent; what fills a large table

Everything else is `onward-ledger serve`.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

from onward_ledger import serve
from onward_ledger.action import Action
from onward_ledger.providers.interface import Absent, Applied, Deadline, Found, Outcome, ProviderClass, SendingProvider

NOTHING, COUNTED, OPAQUE = "bench.nothing", "bench.counted", "bench.opaque"
COUNTED_SECONDS = 0.05


class Nothing(SendingProvider):
    """Everything succeeds, and nothing happens."""

    kind = NOTHING
    provider_class = ProviderClass.IDEMPOTENT

    def validate(self, run_id: str, resource: str, params: Any) -> None:
        """Everything will do."""

    def send(self, action: Action, deadline: Deadline) -> Outcome:
        """At once."""
        deadline.check()
        return Applied(provider_id=action.action_id, receipt={"charge": action.action_id})

    def lookup(self, action: Action) -> Found:
        """Nothing ever happened."""
        return Absent()


class Counted(Nothing):
    """A send is a line in the file, and takes long enough for others to come in between."""

    kind = COUNTED

    def __init__(self, log: Path) -> None:
        self._log = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

    def send(self, action: Action, deadline: Deadline) -> Outcome:
        """Count, and wait a moment."""
        os.write(self._log, f"{action.action_id}\n".encode())
        time.sleep(COUNTED_SECONDS)
        return super().send(action, deadline)


class Opaque(Nothing):
    """Cannot be looked up, so that nothing of it is ever settled in the background."""

    kind = OPAQUE
    provider_class = ProviderClass.OPAQUE
    looks_up = False


def main() -> None:
    """Serve until the process that started this one is gone."""
    from tools.process import die_with_parent

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--ready-file", type=Path, required=True)
    parser.add_argument("--parent", type=int, required=True, help="the pid of the process that started this one")
    arguments = parser.parse_args()
    die_with_parent(arguments.parent, sys.stdin.fileno())
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")

    def providers_for(*told: Any) -> dict[str, Any]:
        return {provider.kind: provider for provider in (Nothing(), Counted(sends_of(arguments.folder)), Opaque())}

    serve.providers_for = providers_for
    serve.serve(
        serve.ServeOptions(
            store=arguments.store,
            objects=str(arguments.folder / "objects"),
            token=serve.read_token(arguments.folder / "token"),
            ready_file=arguments.ready_file,
        )
    )


def sends_of(folder: Path) -> Path:
    """Where the sends of `bench.counted` are counted."""
    return folder / "sends.log"


if __name__ == "__main__":
    main()
