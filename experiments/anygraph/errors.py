"""What keeps somebody's graph from being tried: the same that keeps it from being run."""

from runs.foreign.errors import GraphError

__all__ = ["GraphError"]
