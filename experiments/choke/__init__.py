"""Choke points: the few places that everything passes which a Python process does to the world outside of it.

    postgres   psycopg's wait, where every exchange with the server happens, and connect
    sqlite     statements that write, commits
    http       requests out and answers in, of httpx and of http.client
    files      files put in place; objects put into a store
    children   processes started

Each file wraps the library's own class in a process that an experiment started. The product knows of none of this.
"""

from __future__ import annotations

from experiments.boundaries import Watch
from experiments.choke import children, files, http, postgres, sqlite


def install_all(watch: Watch) -> None:
    """Watch everything in this process, once."""
    for module in (postgres, sqlite, http, files, children):
        module.install(watch)
