"""The OpenAPI document against the service: requests made from the document, good and bad, to real processes.

`schemathesis` makes them: every boundary of every parameter and body, every method that is not documented, and examples
of its own from a fixed seed. Good ones are aimed at recorded actions, so that they get past "not found".
"""

import itertools
import json
import uuid
from collections import Counter

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.core.parameters import ParameterLocation

from onward_ledger.action import ActionKey, Status
from onward_ledger.objects import Objects
from tests.support.ledger import draft_request, publication_request, shared_database
from tests.support.ledger_process import ledger_process
from tests.support.raw_server import raw_server

pytestmark = pytest.mark.campaign

MODES = [GenerationMode.POSITIVE, GenerationMode.NEGATIVE]
EXAMPLES = 8
PREPARED = UNKNOWN = 10

# What the document cannot say: that an id belongs to its body, what a kind takes, who is a person to this token.
BEYOND_THE_DOCUMENT = ("positive_data_acceptance",)


class World:
    """A service with records, and its document."""

    def __init__(self, process):
        self.process = process
        self.document = httpx.get(process.url + "/openapi.json").json()
        self.schema = self.read(self.document)
        self.session = requests.Session()
        self.headers = {"Authorization": f"Bearer {process.token}"}
        self.statuses = Counter()
        self.found = {}
        load_all_checks()
        self.excluded = CHECKS.get_by_names(BEYOND_THE_DOCUMENT)
        client, run_id = process.client(), str(uuid.uuid4())
        resource, params = draft_request(Objects(process.objects), run_id, b"# Report")
        saved = client.perform(ActionKey(run_id, "write", "draft"), "draft.save", lambda: (resource, params), epoch=1)
        proposed = [
            client.propose(
                ActionKey(run_id, f"deliver#{n}", "publish"),
                "report.publish",
                lambda: publication_request(saved),
                epoch=1,
            )
            for n in range(1, PREPARED + 1)
        ]
        lost = [
            client.perform(ActionKey(run_id, f"send#{n}", "silent"), "silent.send", lambda: ("there", {}), epoch=1)
            for n in range(UNKNOWN)
        ]
        assert {action.status for action in lost} == {Status.UNKNOWN}
        self.actions = itertools.cycle(
            [action for three in zip(proposed, lost, itertools.repeat(saved)) for action in three]
        )
        self.kinds = itertools.cycle(["draft.save", "report.publish", "silent.send", "nobody.knows"])

    def read(self, document):
        schema = schemathesis.openapi.from_dict(document)
        schema.config.update(base_url=self.process.url)
        return schema

    def operations(self):
        return [result.ok() for result in self.schema.get_all_operations()]

    @staticmethod
    def boundaries(operation):
        config = operation.schema.config.generation_for(operation=operation)
        return operation.schema.iter_coverage_cases(operation, generation_modes=MODES, generation_config=config)

    def ask(self, case):
        """Send it, and keep what the document does not allow, once for each kind of finding."""
        excluded = self.excluded
        wrong = {place for place, part in case.meta.components.items() if part.mode is GenerationMode.NEGATIVE}
        if wrong == {ParameterLocation.HEADER}:
            # What was wrong is the token, and a good one is put in its place.
            excluded = [*excluded, *CHECKS.get_by_names(["negative_data_rejection"])]
        response = case.call(session=self.session, headers=self.headers)
        self.statuses[response.status_code] += 1
        try:
            case.validate_response(response, excluded_checks=excluded)
        except BaseException as failure:
            for each in getattr(failure, "exceptions", [failure]):
                told = f"{each}\n{response.text[:500]}\n{case.as_curl_command()}"
                self.found.setdefault((case.operation.label, type(each).__name__), told)
        return response

    def told(self):
        return "\n\n".join(f"{where} {what}: {told}" for (where, what), told in self.found.items())

    def aim(self, case):
        """Point a good request at something that is there."""
        if case.meta.generation.mode is not GenerationMode.POSITIVE or case.method != case.operation.method.upper():
            return case
        action = next(self.actions)
        case.headers["X-Onward-Principal"] = "anna"
        if "run_id" in case.path_parameters:
            case.path_parameters["run_id"] = action.run_id
        if "action_id" in case.path_parameters:
            case.path_parameters["action_id"] = action.action_id
        if isinstance(case.body, dict):
            self._aim_body(case, action)
        return case

    def _aim_body(self, case, action):
        if "request_hash" in case.body:
            case.body["request_hash"] = action.request_hash
        if "expected_version" in case.body:
            case.body["expected_version"] = action.version
        if case.operation.label.startswith("PUT /v1/actions"):
            case.body["kind"] = next(self.kinds)
            key = ActionKey(*(case.body[name] for name in ("run_id", "step", "slot")), case.body.get("rev", 1))
            case.path_parameters["action_id"] = key.action_id


def silent(peer, number):
    """An API that takes a request and says nothing: whether it did something is UNKNOWN."""
    peer.request()


KINDS = """
[kinds."silent.send"]
type = "http"
class = "opaque"
base_url = "http://127.0.0.1:{port}"
plain_http = true
allow_addresses = ["127.0.0.1/32"]
path = "/"
"""


@pytest.fixture(scope="module")
def world(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("openapi")
    store = f"sqlite:///{folder / 'ledger.db'}" if request.param == "sqlite" else shared_database(request)
    environment = {"ONWARD_LEDGER_CONFIG": str(folder / "kinds.toml")}
    schema = f"openapi_{uuid.uuid4().hex[:8]}"
    with (
        raw_server(silent) as api,
        ledger_process(folder, store, schema=schema, environment=environment) as process,
    ):
        (folder / "kinds.toml").write_text(KINDS.format(port=api.port))
        yield World(process.start())


@pytest.mark.parametrize("world", ["postgres"], indirect=True)  # the stricter one
def test_boundaries(world):
    for operation in world.operations():
        for case in world.boundaries(operation):
            world.ask(world.aim(case))
    assert not world.found, world.told()
    # The control: good requests were accepted, bad ones refused, and every kind of no was heard.
    for status in (200, 202, 401, 404, 405, 409, 422):
        assert world.statuses[status], world.statuses


@pytest.mark.parametrize(
    ("world", "mode"),
    [("postgres", GenerationMode.NEGATIVE), ("sqlite", GenerationMode.POSITIVE)],
    indirect=["world"],
    ids=["bad-postgres", "good-sqlite"],
)
def test_examples(world, mode):
    for operation in world.operations():
        if mode is GenerationMode.NEGATIVE and not (operation.body or any(operation.iter_parameters())):
            continue  # nothing can be wrong with a request without parts

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def ask(case):
            world.ask(world.aim(case))

        ask()
    assert not world.found, world.told()


@pytest.mark.parametrize("world", ["postgres"], indirect=True)
def test_a_document_that_says_something_else_is_found_out(world):
    """The control: what the service answers is compared with the document."""
    for change, expected in {
        "status": "UndefinedStatusCode",
        "media type": "UndefinedContentType",
        "shape": "JsonSchemaError",
        "method": "AllowHeaderMismatch",
    }.items():
        document = json.loads(json.dumps(world.document))
        operations = document["paths"]["/v1/actions"]
        match change:
            case "status":
                del operations["get"]["responses"]["4XX"]
            case "media type":
                content = operations["get"]["responses"]["4XX"]["content"]
                content["application/json"] = content.pop("application/problem+json")
            case "shape":
                document["components"]["schemas"]["Action"]["properties"]["step"] = {"type": "integer"}
            case "method":
                operations["delete"] = operations["get"] | {"operationId": "delete_actions"}
        (operation,) = (
            each.ok()
            for each in world.read(document).get_all_operations()
            if each.ok().label == ("DELETE /v1/actions" if change == "method" else "GET /v1/actions")
        )
        for case in world.boundaries(operation):
            world.ask(case)
        assert expected in {name for _, name in world.found}, (change, world.found)
        world.found.clear()
