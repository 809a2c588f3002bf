"""The end of a process that has run their code."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from experiments.story import END, Story


def end(story: Story, words: str) -> NoReturn:
    """Tell it, and end at once: threads that their code has left behind would keep the process for ever."""
    story.tell(END + words)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
