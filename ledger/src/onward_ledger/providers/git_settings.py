"""The settings of a `git` kind, and what they make of it: where the repository is, and how to get in."""

from __future__ import annotations

import base64
import re
import shlex
import shutil
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import Field

from onward_ledger.errors import BadRequest
from onward_ledger.providers.configured import Closed, secret
from onward_ledger.providers.git_work import PROTOCOLS, Remote

NAMED = r"[^<>\x00-\x1f\x7f]{1,200}"  # what git allows in the name and the address of a person
_SCP_LIKE = re.compile(r"[\w.-]+@\w[\w.-]*:[^/].*")


class GitSettings(Closed):
    """`name` is what resources and receipts call the repository. `repository` is a path, or an ssh or https URL.

    `branches` are patterns such as `agents/*`, of which a branch has to match one; `*` stands for `/` too.
    `marker_refs` makes `refs/onward/<action_id>`, see the provider. `search_depth` is how many generations of a branch
    a look-up reads.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9_.-]{1,100}$")
    repository: str = Field(min_length=1)
    committer_name: str = Field(pattern=f"^{NAMED}$")
    committer_email: str = Field(pattern=f"^{NAMED}$")
    branches: tuple[str, ...] = Field(default=("*",), min_length=1)
    marker_refs: bool = True
    search_depth: int = Field(default=1000, ge=1, le=100_000)
    username: str = Field(default="git", pattern=r"^[^:\x00-\x1f\x7f]+$")
    password_env: str | None = None
    password_file: str | None = None
    ca_file: str | None = None
    ssh_key_file: str | None = None
    known_hosts_file: str | None = None


def remote_of(given: GitSettings, folder: Path) -> Remote:
    """The remote repository. BadRequest: git is not there, or the settings do not go together."""
    if shutil.which("git") is None:
        raise BadRequest("The executable git is not on the path; kinds of the type git need it.")
    url = _url(given.repository, folder)
    config = {"http.sslCAInfo": str(folder / given.ca_file)} if given.ca_file else {}
    password = secret("password", env=given.password_env, file=given.password_file, folder=folder)
    if password is not None:
        if not url.startswith("https://"):
            raise BadRequest("password: only a repository with an https URL takes one.")
        pair = f"{given.username}:{password.get_secret_value()}".encode()
        config["http.extraHeader"] = f"Authorization: Basic {base64.b64encode(pair).decode()}"
    return Remote(url=url, config=config, ssh_command=_ssh_command(given, folder))


def _url(repository: str, folder: Path) -> str:
    if _SCP_LIKE.fullmatch(repository):
        return repository
    if "://" not in repository:
        path = folder / Path(repository).expanduser()
        if not path.is_dir():
            raise BadRequest(f"repository: there is no folder {path}.")
        return path.resolve().as_uri()
    parts = urlsplit(repository)
    if parts.scheme not in PROTOCOLS:
        raise BadRequest(f"repository: the protocol must be one of {', '.join(PROTOCOLS)}.")
    if parts.password or (parts.username and parts.scheme != "ssh"):
        raise BadRequest("repository: the URL holds credentials; give them by username and password_env or _file.")
    return repository


def _ssh_command(given: GitSettings, folder: Path) -> str:
    """Ssh that never asks, never trusts a host that it does not know, and does not hang for ever."""
    options = ["BatchMode=yes", "StrictHostKeyChecking=yes", "ConnectTimeout=20", "ServerAliveInterval=15"]
    if given.known_hosts_file:
        options.append(f"UserKnownHostsFile={folder / Path(given.known_hosts_file).expanduser()}")
    command = ["ssh", *(part for option in options for part in ("-o", option))]
    if given.ssh_key_file:
        command += ["-o", "IdentitiesOnly=yes", "-i", str(folder / Path(given.ssh_key_file).expanduser())]
    return shlex.join(command)
