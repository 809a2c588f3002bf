"""Choke points in this very process, for one test: what was wrapped is put back."""

from __future__ import annotations

import http.client
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import obstore
import psycopg
import pytest

from experiments import choke
from experiments.boundaries import Boundary, Watch

WRAPPED: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (psycopg, ("connect",)),
    (psycopg.Connection, ("connect", "wait")),
    (psycopg.AsyncConnection, ("connect", "wait")),
    (sqlite3, ("connect",)),
    (httpx.HTTPTransport, ("handle_request",)),
    (httpx.AsyncHTTPTransport, ("handle_async_request",)),
    (http.client.HTTPConnection, ("request", "getresponse")),
    (os, ("replace", "rename", "link")),
    (obstore, ("put", "delete", "copy", "rename")),
    (subprocess.Popen, ("__init__",)),
)


class Passed(list[Boundary]):
    """Every boundary that was passed."""

    @property
    def words(self) -> list[str]:
        """`before commit`, in order, in whichever thread."""
        return [f"{boundary.side} {boundary.label}" for boundary in self]

    @property
    def labels(self) -> list[str]:
        """The operations that were done, in the order of their ends."""
        return [boundary.label for boundary in self if boundary.side == "after"]


@contextmanager
def watched_here() -> Iterator[Passed]:
    """Everything is watched in this process."""
    passed = Passed()
    with pytest.MonkeyPatch.context() as patch:
        for owner, names in WRAPPED:
            for name in names:
                patch.setattr(owner, name, vars(owner)[name])  # what stands there now, to be put back
        choke.install_all(Watch(passed.append))
        yield passed
