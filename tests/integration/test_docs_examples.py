"""The requests of docs/protocol.md, sent as they are printed to a service of their own: each answers as it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.support.ledger_process import ledger_process
from tests.support.markdown import document

PROTOCOL = document("docs/protocol.md")

# Stands in for the `ask` of the document, which needs curl: method, path, body; prints status and code.
ASK = """
import json, os, sys, urllib.error, urllib.request
method, path, *body = sys.argv[1:]
headers = {"Authorization": "Bearer " + open("onward-ledger.token").read().strip(), "X-Onward-Principal": "anna"}
data = body[0].encode() if body else None
request = urllib.request.Request(os.environ["URL"] + path, data, headers | {"Content-Type": "application/json"})
request.method = method
try:
    with urllib.request.urlopen(request) as answer:
        print("ANSWER", answer.status)
except urllib.error.HTTPError as error:
    print("ANSWER", error.code, json.load(error)["code"])
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A service whose folder looks as `onward-ledger serve` makes it."""
    folder = tmp_path_factory.mktemp("ledger")
    objects = str(folder / "onward-objects")
    with ledger_process(folder, f"sqlite:///{folder / 'onward-ledger.db'}", objects=objects) as process:
        process.start()
        (folder / "onward-ledger.token").write_text(process.token)
        yield process


def test_the_requests_answer_as_the_document_says(service):
    script = "\n".join(PROTOCOL.blocks("sh"))
    promised = re.findall(r"  # (\d{3}.*)$", script, re.MULTILINE)
    assert len(promised) == len(re.findall(r"^ask ", script, re.MULTILINE)) > 15
    start = script.index("ask() {")
    script = script[:start] + script[script.index("\n}\n", start) + 3 :]  # its own `ask` is the one below
    (service.folder / "ask.py").write_text(ASK)
    own = f'ask() {{ {sys.executable} -I -S ask.py "$@"; }}\n'
    environment = {"PATH": os.environ["PATH"], "URL": service.url}
    done = subprocess.run(
        ["sh", "-e"],
        input=own + script,
        cwd=service.folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    answers = re.findall(r"^ANSWER (.*)$", done.stdout, re.MULTILINE)
    assert answers == promised


def test_the_client_s_example_works(service):
    (example,) = PROTOCOL.blocks("python")
    assert "http://127.0.0.1:7420" in example
    example = example.replace("http://127.0.0.1:7420", service.url)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example], cwd=service.folder, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    promised = re.search(r"print\(.*#\s*(.*)$", example, re.MULTILINE).group(1)
    assert done.stdout.strip() == promised
