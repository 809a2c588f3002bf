"""The notebook in pieces, and cells of a test's own, executed in real kernels."""

from __future__ import annotations

import json
from typing import Any

import nbformat
from nbclient.exceptions import DeadKernelError

from notebooks import render
from tests.support.cli_world import Cli


def halves() -> tuple[Any, Any]:
    """The notebook's cells up to the restart of the kernel, and from there on."""
    first, second = render.read(), render.read()
    restart = next(n for n, cell in enumerate(first.cells) if "restart" in cell.metadata.get("tags", ()))
    first.cells, second.cells = first.cells[:restart], second.cells[restart:]
    return first, second


def add(notebook: Any, code: str) -> None:
    """A cell of the test's own at the end."""
    notebook.cells.append(nbformat.v4.new_code_cell(code))


def execute(notebook: Any, cli: Cli, *, dies: bool = False) -> Any:
    """The JSON that the cells, run in a new kernel, printed last. `dies`: the last cell kills that kernel."""
    try:
        render.execute(notebook, cli.environment())
        assert not dies
    except DeadKernelError:
        assert dies
    return json.loads(printed(notebook.cells[-2 if dies else -1]).splitlines()[-1])


def printed(cell: Any) -> str:
    """What a cell wrote to its streams."""
    return "".join(output["text"] for output in cell.outputs if output["output_type"] == "stream")


def output_of(notebook: Any, words: str) -> str:
    """What the first cell that holds these words printed."""
    return printed(next(cell for cell in notebook.cells if cell.cell_type == "code" and words in cell.source))
