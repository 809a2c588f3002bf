"""How a process of ours ends when the one that started it ends, however that one ended.

A killed process cannot clean up, so its children have to notice. Three ways, each with a hole that another closes:

* Linux tells a child by a signal (`PR_SET_PDEATHSIG`). It also reaches a child that hangs. But it fires when the
  *thread* that started the child ends, and says nothing when the parent ended before it was asked for.
* A pipe whose writing end only the parent holds is at its end when the parent is gone. This works everywhere, but
  somebody has to read it.
* A handle on the parent (pidfd, Linux) becomes readable when the whole process is gone, whatever its threads did.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import weakref
from typing import Any, Final, NoReturn

_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def die_with_parent(expected_parent_pid: int, life_fd: int | None = None) -> None:
    """Make this process end by SIGKILL when its parent is gone.

    `expected_parent_pid` is what the parent says its pid is: hand it over, `os.getppid()` may already name the reaper.
    `life_fd` is the reading end of a pipe whose writing end only the parent holds (stdin, when the parent keeps the
    other end open): a thread waits for its end. It is what works on macOS; on Linux it is the second of two.

    On Linux start the process from a thread that lives as long as the parent, such as the main thread: the signal comes
    when that thread ends. Call this once, early, but after any fork that must happen without threads.
    """
    _ask_for_a_signal()
    if os.getppid() != expected_parent_pid:  # it ended between starting us and the line above: no signal will come
        _die()
    if life_fd is not None:
        threading.Thread(target=_die_at_end_of, args=(life_fd,), name="life-line", daemon=True).start()


# The children of this process that do a step's work.
_at_work: weakref.WeakSet[subprocess.Popen[Any]] = weakref.WeakSet()


def at_work(child: subprocess.Popen[Any]) -> None:
    """Note a child that does a step's work: `end_children` ends it. Others, a server say, are not noted."""
    _at_work.add(child)


def end_children() -> int:
    """End what was started to do a step's work, at once; how many there were. Whoever waits for them finds them dead.

    Any thread may call this.
    """
    living = [child for child in list(_at_work) if child.poll() is None]
    for child in living:
        child.kill()
    return len(living)


def parent_handle(expected_parent_pid: int) -> int | None:
    """A file descriptor that becomes readable when the parent process is gone; None where the system has no such thing.

    For a process with a loop of its own, which selects on it. Ends this process when the parent is gone already.
    """
    handle = _open_pid(expected_parent_pid)
    if os.getppid() != expected_parent_pid:  # so the pid above may be somebody else's by now
        _die()
    return handle


def _ask_for_a_signal() -> None:
    if sys.platform != "linux":
        return
    if _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl(PR_SET_PDEATHSIG): {os.strerror(number)}")


def _open_pid(pid: int) -> int | None:
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:  # a kernel before 5.3, a sandbox that forbids it, or a parent that is gone
        return None


def _die_at_end_of(life_fd: int) -> NoReturn:
    while os.read(life_fd, 1):  # bytes mean nothing here, only the end does
        pass
    _die()


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    os._exit(1)  # not reached: SIGKILL to oneself is delivered before kill returns
