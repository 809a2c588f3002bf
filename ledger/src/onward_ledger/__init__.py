"""An action ledger: performs external effects, keeps their receipts, replays them, and never guesses."""

from typing import TYPE_CHECKING

from onward_ledger.action import Action, ActionKey, Decision, Status, request_hash
from onward_ledger.errors import LedgerError
from onward_ledger.values import Event, Feed, FeedItem, Fence, Grant, Health

if TYPE_CHECKING:
    from onward_ledger.client import AsyncLedgerClient, LedgerClient

    __version__: str

__all__ = [
    "Action",
    "ActionKey",
    "AsyncLedgerClient",
    "Decision",
    "Event",
    "Feed",
    "FeedItem",
    "Fence",
    "Grant",
    "Health",
    "LedgerClient",
    "LedgerError",
    "Status",
    "__version__",
    "request_hash",
]


def __getattr__(name: str) -> object:
    """What takes long to import is imported by those who use it: the clients bring an HTTP library."""
    if name in ("AsyncLedgerClient", "LedgerClient"):
        from onward_ledger import client

        return getattr(client, name)
    if name == "__version__":
        from importlib.metadata import version

        return version("onward-ledger")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
