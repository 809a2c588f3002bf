"""What a file of theirs imports, found by reading: nothing of it is executed."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import sys
from contextlib import suppress
from pathlib import Path

# Onward's own top-level names. Projects have modules of these names.
OURS = ("graph", "tools", "runs", "experiments", "verify", "tests", "examples")


def packages_of(file: Path) -> list[str]:
    """Installed packages that their file and its siblings import at their top."""
    found: dict[str, None] = {}
    for source in source_files(file):
        for name in _imports(source):
            if not _siblings(source, name) and _is_installed(name.partition(".")[0]):
                found[name] = None
    return list(found)


def source_files(file: Path) -> list[Path]:
    """Their file, and the files of theirs that it imports, directly or by others."""
    found, waiting = [file], [file]
    while waiting:
        source = waiting.pop()
        for name in _imports(source, with_members=True):
            for sibling in _siblings(source, name):
                if sibling not in found:
                    found.append(sibling)
                    waiting.append(sibling)
    return found


def digest_of(file: Path) -> str:
    """What is written in these files, as eight hexadecimal digits: another text, another digest."""
    text = hashlib.sha256()
    for source in sorted(source_files(file)):
        with suppress(OSError):
            data = source.read_bytes()
            text.update(f"{source.name}:{len(data)}\n".encode())
            text.update(data)
    return text.hexdigest()[:8]


def defines(file: Path, name: str) -> bool:
    """Whether a name is bound in a file, or may be; what cannot be parsed is for the import to complain of."""
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return True
    bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            bound |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    return name in bound or "*" in bound or "__getattr__" in bound


def _imports(source: Path, *, with_members: bool = False) -> list[str]:
    """Names of modules that a file imports at its top; `with_members`: what it takes from them may be a module too."""
    try:
        tree = ast.parse(source.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return []
    names: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and (with_members or node.level == 0):
            module = [node.module] if node.module else []
            names += module
            if with_members:
                names += [".".join([*module, alias.name]) for alias in node.names]
    return names


def _siblings(source: Path, name: str) -> list[Path]:
    """Files of theirs that an import means: beside `source`, or in the folder where its top package lies."""
    for root in dict.fromkeys((source.parent, package_top(source))):
        place, found = root, list[Path]()
        for part in name.split("."):
            module, package = place / f"{part}.py", place / part / "__init__.py"
            found += [path for path in (module, package) if path.is_file()][:1]
            place = place / part
        if found:
            return found
    return []


def package_top(file: Path) -> Path:
    """The folder in which their top package lies; that of the file, where it is of no package."""
    folder = file.parent
    while (folder / "__init__.py").exists():
        folder = folder.parent
    return folder


def _is_installed(top: str) -> bool:
    if not top or top in sys.stdlib_module_names or top in OURS:
        return False
    with suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(top)
        places = [spec.origin, *(spec.submodule_search_locations or ())] if spec is not None else []
        return any("site-packages" in str(place) for place in places)
    return False
