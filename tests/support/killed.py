"""Work in a process that is killed in the middle of it."""

import os
import signal

from tests.support.preloading import CONTEXT


def die() -> None:
    """End this process the way the kernel does it."""
    os.kill(os.getpid(), signal.SIGKILL)


def run_killed(work, *arguments) -> None:
    """Run `work` in another process; it has to be killed there."""
    process = start(work, *arguments)
    process.join(60)
    assert process.exitcode == -signal.SIGKILL, f"the process was not killed: {process.exitcode}"
    process.close()


def start(work, *arguments):
    """`work` in another process, as it starts."""
    process = CONTEXT.Process(target=work, args=arguments)
    process.start()
    return process
