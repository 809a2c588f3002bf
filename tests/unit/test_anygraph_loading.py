"""Their file is imported as Python would import it, whatever Onward's own modules are called."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from runs.foreign.sources import digest_of, packages_of, source_files

ROOT = Path(__file__).resolve().parents[2]


def loaded(file: Path, name: str, where: Path) -> str:
    """What `name` is, in a process that has Onward's own modules of these names."""
    script = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import tools, graph
from pathlib import Path
from runs.foreign import loading
from runs.foreign.errors import GraphError
try:
    print(loading.load(Path({str(file)!r}), {name!r}))
except GraphError as error:
    print("GraphError", error)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=where, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tools.py").write_text("WHOSE = 'theirs'\n")
    (tmp_path / "graph.py").write_text("import graph as myself, tools\ngraph = (tools.WHOSE, myself.__name__)\n")
    package = tmp_path / "src/shop"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "prices.py").write_text("PRICE = 7\n")
    (package / "agent.py").write_text("import shop.prices\nfrom .prices import PRICE\ngraph = PRICE, __name__\n")
    (tmp_path / "ends.py").write_text("import sys\nsys.exit('no key configured')\n")
    (tmp_path / "broken.py").write_text("def graph(:\n")
    return tmp_path


def test_their_siblings_come_before_ours(project: Path) -> None:
    assert loaded(project / "graph.py", "graph", ROOT) == "('theirs', 'graph')"


def test_a_file_of_a_package_is_imported_as_part_of_it(project: Path) -> None:
    assert loaded(project / "src/shop/agent.py", "graph", project) == "(7, 'shop.agent')"


@pytest.mark.parametrize(
    ("file", "why"),
    [("ends.py", "SystemExit: no key configured"), ("broken.py", "SyntaxError: invalid syntax (broken.py, line 1)")],
)
def test_a_file_that_cannot_be_imported(project: Path, file: str, why: str) -> None:
    assert loaded(project / file, "graph", project) == f"GraphError {project / file} cannot be imported: {why}."


def test_packages_are_found_by_reading(tmp_path: Path) -> None:
    main = tmp_path / "agent.py"
    main.write_text(
        "import os\nimport langgraph.graph\nfrom helpers import x\nimport nowhere_to_be_found\nimport tools\n"
    )
    (tmp_path / "helpers.py").write_text("from httpx import get\nimport agent\nraise RuntimeError\n")
    assert packages_of(main) == ["langgraph.graph", "httpx"]
    main.write_text("not python")
    assert packages_of(main) == []


def test_the_digest_is_of_the_file_and_of_what_it_imports_beside_it(project: Path) -> None:
    agent, prices = project / "src/shop/agent.py", project / "src/shop/prices.py"
    assert set(source_files(agent)) == {agent, prices, project / "src/shop/__init__.py"}
    before = digest_of(agent), digest_of(project / "graph.py")
    prices.write_text("PRICE = 8\n")
    after = digest_of(agent), digest_of(project / "graph.py")
    assert (before[0] != after[0], before[1] == after[1]) == (True, True)
    (project / "notes.txt").touch()
    assert digest_of(agent) == after[0]


def test_onward_s_own_modules_are_found_again_under_the_names_that_the_project_leaves(project: Path) -> None:
    script = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import graph.context, runs.errors, tools.process
from pathlib import Path
from runs.foreign import loading
ours = runs.errors
with loading.keeping_ours():
    loading.load(Path({str(project / "graph.py")!r}), "graph")
import runs.errors as again, graph, tools
print(again is ours, graph.__file__, tools.WHOSE)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=project, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == f"True {project / 'graph.py'} theirs", done.stderr
