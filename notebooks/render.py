"""Execute approval.py and keep the result as approval.ipynb: a page with outputs, for those who only want to read.

    python notebooks/render.py           execute (about half a minute) and write approval.ipynb
    python notebooks/render.py --check   fail unless approval.ipynb has the cells that approval.py has now

The run lives in a temporary folder, which is removed. What differs between machines is written in one way: the folder
as `~/.onward`, the machine as `here`.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
SOURCE = FOLDER / "approval.py"
PAGE = FOLDER / "approval.ipynb"
WIDGET = "application/vnd.jupyter.widget-view+json"


def read() -> Any:
    """The notebook of approval.py, without outputs."""
    import jupytext

    notebook = jupytext.read(SOURCE)
    for number, cell in enumerate(notebook.cells, 1):
        cell.id = f"cell-{number}"  # jupytext makes them up anew each time
    notebook.metadata.pop("jupytext", None)
    return notebook


def inputs(notebook: Any) -> list[tuple[str, str]]:
    """What a person wrote: kind and text of each cell."""
    return [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]


def execute(notebook: Any, environment: dict[str, str]) -> None:
    """Run all cells in one new kernel that sees this environment."""
    from nbclient import NotebookClient
    from traitlets.config import Config

    with tempfile.TemporaryDirectory() as folder:
        # Sockets of this account only, no ports; what a killed kernel leaves of them goes with the folder.
        sockets = Config(KernelManager={"transport": "ipc", "ip": str(Path(folder) / "kernel")})
        client = NotebookClient(notebook, kernel_name="python3", timeout=120, coalesce_streams=True, config=sockets)
        client.execute(env=environment)


def cleaned(notebook: Any, home: Path) -> str:
    """The page as text, with nothing of this machine in it and no widgets, which only live in a kernel."""
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        cell.outputs = [_cleaned(output) for output in cell.get("outputs", [])] if cell.cell_type == "code" else None
        if cell.outputs is None:
            del cell["outputs"]
    for name in ("language_info", "widgets"):
        notebook.metadata.pop(name, None)
    text = json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    return text.replace(str(home), "~/.onward").replace(f" on {socket.gethostname()}", " on here")


def _cleaned(output: Any) -> Any:
    data = output.get("data", {})
    if WIDGET in data:
        output["data"] = {"text/plain": data["text/plain"]}
    return output


def render() -> None:
    """Write approval.ipynb."""
    notebook = read()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        environment = {**os.environ, "ONWARD_HOME": str(home), "ONWARD_PRINCIPAL": "you"}
        try:
            execute(notebook, environment)
        finally:
            subprocess.run(
                [sys.executable, "-m", "runs.cli", "down", "--force"], cwd=FOLDER.parent, env=environment, check=True
            )
        PAGE.write_text(cleaned(notebook, home), encoding="utf-8")


def main() -> int:
    """Write the page, or check it."""
    if "--check" not in sys.argv:
        render()
        return 0
    if PAGE.exists() and inputs(json.loads(PAGE.read_text(encoding="utf-8"))) == inputs(read()):
        print("approval.ipynb has the cells of approval.py.")
        return 0
    print("approval.ipynb has other cells than approval.py; run: python notebooks/render.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
