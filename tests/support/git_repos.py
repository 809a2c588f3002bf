"""A bare repository as somebody else's server has it, and what can go wrong there: hooks, locks, other people."""

import os
import shutil
import subprocess
from pathlib import Path

from onward_ledger.objects import Objects, digest_of
from onward_ledger.providers.configured import Context
from onward_ledger.providers.git import from_settings
from tests.unit.test_ledger_action import RUN, action

SETTINGS = {"name": "site", "committer_name": "Ledger", "committer_email": "ledger@example.org"}
_SOMEBODY = {
    f"GIT_{role}_{member}": value
    for role in ("AUTHOR", "COMMITTER")
    for member, value in (("NAME", "Somebody"), ("EMAIL", "somebody@example.org"))
}


class Repository:
    """A bare repository in a folder, with a branch `main` of two commits: a new one, or a copy of another."""

    def __init__(self, folder: Path, *, object_format="sha1", like: "Repository | None" = None) -> None:
        self.path = folder / "site.git"
        if like is not None:
            shutil.copytree(like.path, self.path)
            return
        self.git("init", "--quiet", "--bare", f"--object-format={object_format}", str(self.path))
        self.git("config", "uploadpack.allowFilter", "true")
        self.commit("main", {"README.md": "# Site\n", "run.sh": "echo\n", "pages/index.html": "<p>one</p>\n"})
        self.commit("main", {"pages/index.html": "<p>two</p>\n"})

    def git(self, *arguments: str, data: str | None = None, **environment: str) -> str:
        known = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.path if self.path.is_dir() else self.path.parent,
            env=known | _SOMEBODY | environment,
            input=data,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def commit(self, branch: str, files: dict[str, str], message="Somebody's work", modes=None) -> str:
        """What somebody else does; the new tip."""
        parent = self.tip(branch)
        index = {"GIT_INDEX_FILE": str(self.path / "somebody.index")}
        self.git("read-tree", parent or "--empty", **index)
        for path, text in files.items():
            blob = self.git("hash-object", "-w", "--stdin", data=text)
            mode = (modes or {}).get(path, "100755" if path.endswith(".sh") else "100644")
            self.git("update-index", "--add", "--cacheinfo", f"{mode},{blob},{path}", **index)
        tree = self.git("write-tree", **index)
        made = self.git("commit-tree", tree, *(["-p", parent] if parent else []), "-m", message)
        self.git("update-ref", f"refs/heads/{branch}", made)
        return made

    def tip(self, branch: str) -> str | None:
        return self.refs().get(f"refs/heads/{branch}")

    def refs(self) -> dict[str, str]:
        lines = self.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        return dict(line.split() for line in lines)

    def show(self, commit: str, path: str) -> str:
        return self.git("show", f"{commit}:{path}")

    def of_action(self, wanted, branch="main") -> list[str]:
        """The commits of an action on a branch, told by their trailer."""
        pretty = "--format=%H %(trailers:key=Onward-Action,valueonly,separator=%x20)"
        lines = [line.split() for line in self.git("log", pretty, branch).splitlines()]
        return [commit for commit, *ids in lines if ids == [wanted.action_id]]

    def hook(self, name: str, script: str) -> Path:
        path = self.path / "hooks" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path


def staged(folder: Path, *texts: bytes) -> Objects:
    objects = Objects(str(folder / "objects"))
    for data in texts:
        objects.put_once(f"runs/{RUN}/{digest_of(data)}", data)
    return objects


def provider_of(folder: Path, **settings):
    """A provider as the service makes it, over `site.git` and staged objects of the same folder."""
    context = Context(objects=staged(folder, b"hello\n", b"other\n"), folder=folder)
    return from_settings("site.commit", {**SETTINGS, "repository": "site.git", **settings}, context)


def file(path="pages/new.html", data=b"hello\n", **changes):
    digest = digest_of(data)
    return {"path": path, "source": f"runs/{RUN}/{digest}", "digest": digest, "size": len(data)} | changes


def commit_params(base, *files, **changes):
    params = {"base": base, "create": base is None, "message": "Add a page", "author": None}
    return params | {"files": list(files) or [file()], "delete": []} | changes


def commit_action(base, *files, resource="site/main", **changes):
    return action(kind="site.commit", resource=resource, params=commit_params(base, *files, **changes))
