"""One real service with a configuration of a git, an object and a mail kind: effects, replays, no secrets."""

import uuid

import httpx
import pytest

from onward_ledger.action import ActionKey, Status
from onward_ledger.objects import Objects, digest_of
from tests.support.git_repos import Repository
from tests.support.git_server import PASSWORD, USER, git_server
from tests.support.ledger_process import LedgerProcess
from tests.support.mail_server import mail_server

CONFIG = """
[kinds."site.commit"]
type = "git"
name = "site"
repository = "{url}"
ca_file = "ca.pem"
username = "{user}"
password_env = "GIT_PASSWORD"
committer_name = "Ledger"
committer_email = "ledger@example.org"
branches = ["main", "agents/*"]

[kinds."site.put"]
type = "object"
store = "public"

[kinds."mail.send"]
type = "mail"
host = "localhost"
port = {port}
ca_file = "mail/ca.pem"
username = "ledger"
password_env = "MAIL_PASSWORD"
sender = "Onward <ledger@example.org>"
recipients = ["*@example.org"]
editable = ["subject"]

[kinds."mail.send".approval]
"""
PAGE = b"<h1>Hello</h1>\n"


class Configured(LedgerProcess):
    """A service with `--config`."""

    def arguments(self):
        return [*super().arguments(), "--config", str(self.folder / "ledger.toml")]


@pytest.fixture
def world(tmp_path):
    repository = Repository(tmp_path)
    with git_server(repository) as url, mail_server(tmp_path / "mail", tls="starttls", login=True) as mail:
        (tmp_path / "ledger.toml").write_text(CONFIG.format(url=url, user=USER, port=mail.port))
        secrets = {"GIT_PASSWORD": PASSWORD, "MAIL_PASSWORD": PASSWORD}
        service = Configured(tmp_path, f"sqlite:///{tmp_path / 'ledger.db'}", environment=secrets)
        try:
            yield service.start(), repository, mail
        finally:
            service.close()


def test_three_kinds_are_performed_once_and_replayed_and_their_secrets_stay_where_they_are(world, tmp_path):
    service, repository, mail = world
    client, run_id, digest = service.client(), str(uuid.uuid4()), digest_of(PAGE)
    staged = {"source": f"runs/{run_id}/{digest}", "digest": digest, "size": len(PAGE)}
    Objects(service.objects).put_once(staged["source"], PAGE)
    commit = {"base": repository.tip("main"), "create": False, "message": "Add a page", "author": None, "delete": []}
    requests = {
        "site.commit": ("site/main", commit | {"files": [staged | {"path": "pages/hello.html"}]}),
        "site.put": ("pages", {"objects": [staged | {"key": "hello.html", "media_type": "text/html"}]}),
        "mail.send": ("anna@example.org", {"to": ["anna@example.org"], "subject": "Done", "text": "It is there.\n"}),
    }
    keys = {kind: ActionKey(run_id, "deliver", kind) for kind in requests}
    waiting = client.perform(keys["mail.send"], "mail.send", lambda: requests["mail.send"], epoch=1)
    assert waiting.status is Status.PREPARED and mail.accepted == [], "a mail waits for a person"
    client.decide(waiting.action_id, "approve", request_hash=waiting.request_hash)

    done = {kind: client.perform(keys[kind], kind, lambda k=kind: requests[k], epoch=1) for kind in requests}
    assert {action.status for action in done.values()} == {Status.SUCCEEDED}
    assert repository.show("main", "pages/hello.html") == PAGE.decode().strip()
    assert Objects(str(tmp_path / "public")).read("pages/hello.html") == PAGE
    assert done["site.commit"].provider_id == repository.tip("main")

    service.kill()
    client = service.start().client()
    again = {kind: client.perform(keys[kind], kind, lambda k=kind: requests[k], epoch=1) for kind in requests}
    for kind, action in again.items():
        assert (action.replayed, action.claims, action.receipt) == (True, 1, done[kind].receipt)
    assert len(mail.accepted) == 1 and repository.of_action(done["site.commit"]) == [repository.tip("main")]

    kept = [path.read_bytes() for path in (service.folder / "ledger.log", *tmp_path.glob("ledger.db*"))]
    told = httpx.get(f"{service.url}/v1/actions", headers={"Authorization": f"Bearer {service.token}"}, trust_env=False)
    assert told.status_code == 200 and done["mail.send"].action_id in told.text, "control: the answers are these"
    assert not any(PASSWORD.encode() in text for text in (*kept, told.content))
