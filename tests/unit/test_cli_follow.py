"""Live progress says what the events say, once each, and shows hostile names as text."""

import sys
from contextlib import closing
from io import StringIO

from runs.follow import LiveProgress, PlainProgress, Told, progress_for_stderr
from tests.support.runs_values import events_of

HISTORY = events_of(
    ("created", None, {}, None),
    ("status", None, {"from": "queued", "to": "running", "reason": None}),
    ("claimed", None, {"why": "queued", "before": 0, "host": "box", "pid": 42}),
    ("step_started", "plan", {"attempt": 1}),
    ("progress", "plan", {"text": "Reading Sales\x1b[2J", "done": 1, "total": 3}),
    ("model_call_started", "plan", {"call_id": "c", "model": "offline"}),
    ("model_call_finished", None, {"call_id": "c", "input_tokens": 0, "output_tokens": 0, "cost_usd": 0.0}),
    ("step_finished", "plan", {}),
    ("claimed", None, {"why": "gone", "before": 1, "host": "box", "pid": 43}, 2),
    ("settled", "write_draft", {"kind": "draft.save", "before": "UNKNOWN", "status": "SUCCEEDED"}, 2),
    ("step_started", "write_draft", {"attempt": 2}, 2),
    ("receipt", "write_draft", {"kind": "draft.save", "resource": "d/1", "status": "SUCCEEDED", "replayed": True}, 2),
    ("receipt", "deliver", {"kind": "report.publish", "resource": "r", "status": "SUCCEEDED", "replayed": False}, 2),
    ("action", "deliver", {"kind": "report.publish", "resource": "r", "status": "UNKNOWN", "replayed": False}, 2),
    ("action", "deliver", {"kind": "report.publish", "resource": "r", "status": "PREPARED", "replayed": False}, 2),
    ("epoch_raised", None, {"from": 2, "to": 9}, 9),
    ("error", "deliver", {"error": "Unreachable", "message": "The ledger does not answer."}, 2),
    ("model_call_finished", None, {"input_tokens": 900, "output_tokens": 200, "cost_usd": 0.0123}, 2),
    ("status", None, {"from": "running", "to": "failed", "reason": "rejected"}, 2),
    ("something_new", None, {}, 2),
)

LINES = [
    "[epoch 1] process 42 on box drives the run",
    "[epoch 1] plan: started",
    "[epoch 1] plan: Reading Sales\\x1b[2J (1 of 3)",
    "[epoch 1] plan: done (4.0 s)",
    "[epoch 2] process 43 on box took the run over from epoch 1",
    "[epoch 2] write_draft: draft.save was left UNKNOWN by an older epoch, and is SUCCEEDED",
    "[epoch 2] write_draft: started again, attempt 2",
    "[epoch 2] write_draft: draft.save d/1: receipt reused, nothing was sent",
    "[epoch 2] deliver: report.publish r: new receipt",
    "[epoch 2] deliver: report.publish r: UNKNOWN",
    "[epoch 2] deliver: report.publish r: proposed",
    "[epoch 9] the ledger knows a newer epoch; this driver goes on as epoch 9",
    "[epoch 2] deliver: The ledger does not answer.",
    "[epoch 2] model answered, 1,100 tokens, 0.0123 USD",
    "[epoch 2] the run is failed (rejected)",
]


def test_every_event_is_told_in_words():
    told = Told()
    assert [line for event in HISTORY for line in told.lines(event)] == LINES


def test_what_happens_now_follows_the_events():
    told = Told()
    seen = []
    for event in HISTORY[:8]:
        told.lines(event)
        seen.append(told.current)
    assert seen[3:] == [
        "plan",
        "plan: Reading Sales\\x1b[2J (1 of 3)",
        "plan: asking offline",
        "plan: asking offline",
        "",
    ]


def test_plain_progress_is_one_line_an_event_on_stderr(monkeypatch):
    stream = StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    progress = progress_for_stderr()
    assert isinstance(progress, PlainProgress)
    with closing(progress):
        for event in HISTORY:
            progress.event(event)
        progress.note("two\nlines")
    assert stream.getvalue().splitlines() == [*LINES, "two", "lines"]


class Terminal(StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


def test_a_terminal_keeps_the_facts_and_lets_the_rest_pass(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    progress = progress_for_stderr()
    assert isinstance(progress, LiveProgress)
    with closing(progress):
        for event in HISTORY:
            progress.event(event)
    shown = stream.getvalue()
    for line in LINES:
        if not line.endswith(("plan: started", "(1 of 3)")):
            assert f"{line}\r\n" in shown or f"{line}\n" in shown
    assert "\x1b[2J" not in shown  # the sheet's name does not clear the screen
    assert "plan: started\n" not in shown
    assert shown.count("\x1b[?25h") == shown.count("\x1b[?25l")  # the cursor is back
