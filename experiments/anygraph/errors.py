"""What keeps somebody's graph from being tried. The message is one plain sentence for whoever typed the command."""

from __future__ import annotations


class GraphError(Exception):
    """Their file, graph, input or effects cannot be used as asked for: they have to change something first."""
