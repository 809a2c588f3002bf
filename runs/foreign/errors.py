"""What keeps somebody's graph from being run. The message is a plain sentence for whoever typed the command."""

from __future__ import annotations

from runs.errors import UsageError


class GraphError(UsageError):
    """Their file, graph or input cannot be used as asked for: they have to change something first."""
