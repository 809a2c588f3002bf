"""Become another program that ends with the parent: `python -m experiments.recovering.bound PARENT_PID PROGRAM …`.

Linux keeps the wish to be told of the parent's death across exec; elsewhere the program is only stopped in the end.
"""

from __future__ import annotations

import os
import sys

from tools.process import die_with_parent

if __name__ == "__main__":
    die_with_parent(int(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606 - a list, no shell
