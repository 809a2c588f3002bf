"""Pin the whole resolution by name and version, in `[tool.uv] constraint-dependencies` of pyproject.toml.

uv.lock would pin it too, but it also names the index that each machine downloads from, so it is not in git.

    python .ci/pin.py           resolve to the newest versions and write them
    python .ci/pin.py --check   resolve afresh with the pins; fail when a package has no pin or another version
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^constraint-dependencies = \[\n.*?^\]\n", re.DOTALL | re.MULTILINE)


def resolve(pyproject: str) -> list[str]:
    """`name==version` of every package that a fresh resolution of this pyproject text takes from an index."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder)
        (workspace / "pyproject.toml").write_text(pyproject, encoding="utf-8")
        for name in ("README.md", "LICENSE"):
            shutil.copy(ROOT / name, workspace / name)
        shutil.copytree(ROOT / "ledger", workspace / "ledger", ignore=shutil.ignore_patterns("__pycache__"))
        uv = shutil.which("uv") or str(ROOT / ".uv/bin/uv")
        subprocess.run([uv, "lock", "--quiet", "--directory", folder], check=True)
        lock = tomllib.loads((workspace / "uv.lock").read_text(encoding="utf-8"))
    return sorted(f"{p['name']}=={p['version']}" for p in lock["package"] if "registry" in p["source"])


def main() -> int:
    """Write the pins, or check them."""
    path = ROOT / "pyproject.toml"
    text = path.read_text(encoding="utf-8")
    if "--check" in sys.argv:
        pinned = tomllib.loads(text)["tool"]["uv"]["constraint-dependencies"]
        resolved = resolve(text)
        wrong = sorted(set(resolved) ^ set(pinned))
        for pin in wrong:
            print(f"{pin}: {'resolved but not pinned' if pin in resolved else 'pinned but not resolved'}")
        print(f"{len(resolved)} packages resolved, {len(wrong)} differ from the pins")
        return 1 if wrong else 0
    pins = resolve(BLOCK.sub("", text))
    block = "constraint-dependencies = [\n" + "".join(f'    "{pin}",\n' for pin in pins) + "]\n"
    bare = BLOCK.sub("", text)
    path.write_text(bare.replace("[tool.uv]\n", "[tool.uv]\n" + block, 1), encoding="utf-8")
    print(f"{len(pins)} packages pinned")
    return 0


if __name__ == "__main__":
    sys.exit(main())
