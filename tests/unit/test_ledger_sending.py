"""A send under its hard deadline: every send has a thread to itself, and threads are kept for the next ones."""

from __future__ import annotations

import subprocess
import sys
import threading

from onward_ledger.providers.interface import Applied, Deadline, NotSent
from onward_ledger.sending import MOST_IDLE, Raised, within

DONE = Applied(provider_id="p", receipt={})


def unexpected(late):
    raise AssertionError(late)


def senders():
    return {thread for thread in threading.enumerate() if thread.name == "ledger-send"}


def where(deadline_seconds=10.0):
    """The thread of one send."""
    seen = []
    assert within(Deadline(deadline_seconds), lambda: seen.append(threading.current_thread()) or DONE, unexpected)
    return seen[0]


def test_a_thread_is_kept_for_the_next_send():
    threads = {where() for _ in range(50)}
    assert {(thread.name, thread.daemon) for thread in threads} == {("ledger-send", True)}
    assert len(threads) < 10, "now and then one is not back in time"


def test_a_send_that_hangs_holds_up_no_other_and_answers_late():
    release, told = threading.Event(), threading.Event()
    late, stuck = [], []

    def hang():
        stuck.append(threading.current_thread())
        release.wait(20)
        return DONE

    def tell(result):
        late.append(result)
        told.set()

    assert within(Deadline(0.05), hang, tell) is None
    assert where() is not stuck[0]
    assert not late
    release.set()
    assert told.wait(20)
    assert late == [DONE]


def test_what_a_send_raises_is_told():
    error = ValueError("no")

    def fail():
        raise error

    assert within(Deadline(10.0), fail, unexpected) == Raised(error)
    assert isinstance(within(Deadline(10.0), lambda: Deadline(0.0).check() or DONE, unexpected), NotSent)
    assert where().name == "ledger-send"


def test_as_many_as_there_are_sends_and_few_are_kept():
    many = 3 * MOST_IDLE
    together = threading.Barrier(many)

    def meet():
        together.wait(20)
        return DONE

    callers = [threading.Thread(target=within, args=(Deadline(20.0), meet, unexpected)) for _ in range(many)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(20)
    assert not together.broken
    for ending in senders():
        if len(senders()) > MOST_IDLE:
            ending.join(0.2)
    assert len(senders()) <= MOST_IDLE


def test_neither_an_idle_thread_nor_one_that_hangs_holds_up_the_exit():
    program = (
        "import threading\n"
        "from onward_ledger.providers.interface import Applied, Deadline\n"
        "from onward_ledger.sending import within\n"
        "print(within(Deadline(10.0), lambda: Applied(provider_id='p', receipt={}), print))\n"
        "print(within(Deadline(0.01), lambda: threading.Event().wait(), print))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout.splitlines()[1] == "None"
