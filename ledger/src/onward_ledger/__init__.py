"""An action ledger: performs external effects, keeps their receipts, replays them, and never guesses."""

from importlib.metadata import PackageNotFoundError, version

from onward_ledger.action import Action, ActionKey, Decision, Status, request_hash
from onward_ledger.client import AsyncLedgerClient, LedgerClient
from onward_ledger.errors import LedgerError
from onward_ledger.values import Event, Feed, FeedItem, Fence, Grant, Health

try:
    __version__ = version("onward-ledger")
except PackageNotFoundError:  # a source tree on the path, not installed
    __version__ = "0"

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
