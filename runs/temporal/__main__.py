"""`python -m runs.temporal …`, the same as `onward temporal …`."""

import sys

from runs.cli import main

if __name__ == "__main__":
    sys.exit(main(["temporal", *sys.argv[1:]]))
