#!/usr/bin/env bash
# The guard for LangGraph's tools, with the lowest versions that the ledger's extra declares. The newest are those of the
# project's own environment, in which `uv run pytest` runs the same file.
set -euo pipefail
cd "$(dirname "$0")/.."
uv="${UV:-$PWD/.uv/bin/uv}"

lowest="$(mktemp -d)"
trap 'rm -rf "$lowest"' EXIT
"$uv" venv --quiet --python "${1:-$PWD/.venv/bin/python}" "$lowest/venv"
# The lowest of what the extra names, and of langchain the first whose create_agent goes by the same tool node. Below
# them, whatever these allow: the lowest of everything does not install on a Python of today.
python3 - > "$lowest/requirements.txt" <<'PY'
import tomllib
for package in tomllib.load(open("ledger/pyproject.toml", "rb"))["project"]["optional-dependencies"]["langgraph"]:
    print(package.replace(">=", "=="))
print("langchain==1.0.3")
PY
# From another folder: the project's own pins would hold here.
project="$PWD"
(cd "$lowest" && "$uv" pip install --quiet --python venv/bin/python -r requirements.txt "$project/ledger" \
    pytest pytest-timeout)
"$uv" pip list --quiet --python "$lowest/venv/bin/python" | grep -i "^lang"

# Old versions warn of themselves, so warnings are no errors here; and the project's own test plugins are not installed.
"$lowest/venv/bin/python" -m pytest --noconftest -p no:cacheprovider -q \
    -o addopts=--import-mode=importlib -o filterwarnings=default tests/integration/test_ledger_langgraph.py
