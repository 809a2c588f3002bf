"""A small server of an experiment as a process: it says where it listens, and ends with whoever started it."""

from __future__ import annotations

import argparse
import socketserver
import sys
from collections.abc import Callable
from pathlib import Path

LOOPBACK = "127.0.0.1"


def serve(said: str | None, opened: Callable[[Path, str], socketserver.TCPServer]) -> None:
    """Serve until the process that started this one is gone. `said` is for --help, `opened` makes the server.

    It is made from the path of its log and the address to listen at.

    The ready file gets the port once the server listens.
    """
    from tools.process import die_with_parent

    parser = argparse.ArgumentParser(description=said, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--ready-file", type=Path, required=True)
    parser.add_argument("--host", default=LOOPBACK, help="the address to listen at")
    parser.add_argument("--parent", type=int, required=True, help="the pid of the process that started this one")
    arguments = parser.parse_args()
    die_with_parent(arguments.parent, sys.stdin.fileno())
    with opened(arguments.log, arguments.host) as server:
        part = arguments.ready_file.with_suffix(".part")
        part.write_text(str(server.server_address[1]), encoding="utf-8")
        part.replace(arguments.ready_file)
        server.serve_forever()
