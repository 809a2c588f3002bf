"""No secret in logs and receipts; a receipt that does not fit is not lost."""

import hashlib
import io
import json
import logging
import sys
import threading
from urllib.parse import quote

import pytest

from onward_ledger import masking
from onward_ledger.canonical import canonical
from onward_ledger.errors import BadRequest, TooLarge
from onward_ledger.masking import keep_secret, mask_logs, masked
from onward_ledger.providers.interface import Absent, Applied, CannotTell, NotSent, Refused, Several
from onward_ledger.receipts import LONGEST_ID, LONGEST_TEXT, fit, fitting
from onward_ledger.token_file import digest, new_token
from onward_ledger.wire import DEEPEST_JSON, LARGEST_JSON_BYTES, MOST_VALUES, small

SECRET = 's3cr3t/"käse"&more'


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch):
    monkeypatch.setattr(masking, "_secrets", ())


@pytest.fixture
def log():
    """What a handler with a formatter of its own writes, while this process masks its logs."""
    written, handler = io.StringIO(), None
    before = logging.getLogRecordFactory(), sys.excepthook, threading.excepthook
    logger = logging.getLogger("somebody.elses")
    handler = logging.StreamHandler(written)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logger.addHandler(handler)
    logging.getLogger("onward_ledger").addHandler(handler)
    mask_logs()
    try:
        yield lambda: written.getvalue()
    finally:
        logger.removeHandler(handler)
        logging.getLogger("onward_ledger").removeHandler(handler)
        logging.setLogRecordFactory(before[0])
        sys.excepthook, threading.excepthook = before[1:]


def test_what_looks_like_a_credential_is_masked():
    token = new_token()
    for text, expected in {
        f"got {token}, sorry": "got onw_***, sorry",
        "Authorization: Bearer abcdefgh.ijk": "Authorization: Bearer ***",
        "authorization: Basic dXNlcjpwdw==": "authorization: Basic ***",
        "{'Authorization': 'Bearer abcdefgh'}": "{'Authorization': 'Bearer ***'}",
        "(b'authorization', b'Bearer abcdefgh')": "(b'authorization', b'Bearer ***')",
        '"authorization": "a-key-without-scheme"': '"authorization": "***"',
        "sent bearer abcdefgh to it": "sent bearer *** to it",
        "postgresql://me:hunter22@host/db": "postgresql://me:***@host/db",
        "host=x password=hunter22 user=me": "host=x password=*** user=me",
    }.items():
        assert masked(text) == expected


def test_what_is_no_credential_stays():
    for text in (
        "send Authorization: Bearer <token>.",
        "https://host:8080/path?x=1 and mail a@b.example",
        "the bearer of this",
        "onw_short and renown_is_not_one",
        "7f0f3b8e-6a5d-4a53-9d7e-0c1a2b3c4d5e",
        "Password authentication failed",
    ):
        assert masked(text) == text


def test_a_known_secret_is_masked_as_it_is_and_as_urls_and_json_write_it():
    texts = [SECRET, quote(SECRET, safe=""), json.dumps(SECRET), f"a={SECRET}b"]
    assert all(masked(text) == text for text in texts), "the control: nobody has said that it is secret"
    keep_secret(SECRET + "\n")
    keep_secret(SECRET + "-longer")
    assert [masked(text) for text in texts] == ["***", "***", '"***"', "a=***b"]
    assert masked(SECRET + "-longer") == "***"
    keep_secret("abc")
    keep_secret(None)
    assert masked("abc") == "abc"


def test_logs_are_masked_whoever_writes_them(log):
    keep_secret("hunter-22")
    other = logging.getLogger("somebody.elses")
    other.warning("the key is %s", "hunter-22")
    other.warning("nothing secret: %s", "visible")
    try:
        raise ValueError("hunter-22 is wrong")
    except ValueError:
        other.exception("it failed", stack_info=True)
    assert "hunter-22" not in log()
    for expected in ("the key is ***", "nothing secret: visible", "ValueError: *** is wrong", "Traceback", "Stack"):
        assert expected in log()


def test_a_masked_record_keeps_nothing_unmasked(log):
    keep_secret("hunter-22")
    record = logging.getLogRecordFactory()("x", logging.INFO, "f", 1, "key %s", ("hunter-22",), None)
    assert (record.getMessage(), record.args) == ("key ***", None)


def test_what_ends_a_thread_is_logged_and_masked(log):
    keep_secret("hunter-22")

    def fail():
        raise RuntimeError("hunter-22")

    thread = threading.Thread(target=fail, name="failing")
    thread.start()
    thread.join()
    sys.excepthook(RuntimeError, RuntimeError("hunter-22 again"), None)
    assert "An error ended the thread failing." in log()
    assert "RuntimeError: *** again" in log()
    assert "hunter-22" not in log()


def test_masking_twice_is_masking_once(log):
    factory = logging.getLogRecordFactory()
    mask_logs()
    assert logging.getLogRecordFactory() is factory


def nested(depth):
    value = {"end": 1}
    for _ in range(depth - 2):
        value = {"in": value}
    return value


def test_params_that_are_too_deep_or_too_many_are_refused():
    small("params", nested(DEEPEST_JSON))
    with pytest.raises(BadRequest, match="deeper than 32 levels"):
        small("params", nested(DEEPEST_JSON + 1))
    with pytest.raises(BadRequest, match="deeper than"):
        small("params", nested(100_000))
    small("params", {"many": [0] * (MOST_VALUES - 2)})
    with pytest.raises(BadRequest, match="more than 10000 values"):
        small("params", {"many": [0] * (MOST_VALUES - 1)})
    with pytest.raises(TooLarge):
        small("params", {"long": "x" * LARGEST_JSON_BYTES})


def test_a_receipt_that_fits_stays_as_it_is():
    receipt = {"id": "ch_1", "list": [1, 2.5, None, True, {"deep": ["x"]}], "at": "2026-01-01T00:00:00Z"}
    assert fitting(receipt) == receipt
    assert fitting({}) == {}


def test_a_receipt_that_is_too_large_keeps_what_is_short_and_its_digest():
    receipt = {"id": "ch_1", "digest": "ab" * 32, "paid": True, "amount": 12, "page": "x" * 70_000, "lines": [1, 2]}
    written = json.dumps(receipt).encode()
    assert fitting(receipt) == {
        "id": "ch_1",
        "digest": "ab" * 32,
        "paid": True,
        "amount": 12,
        "truncated": {
            "bytes": len(written),
            "sha256": hashlib.sha256(written).hexdigest(),
            "because": "It is larger than 64 KiB.",
        },
    }


@pytest.mark.parametrize(
    "odd",
    [
        {"odd": float("nan")},
        {"odd": 2**60},
        {"odd": 10**5000},
        {"odd": float("-inf")},
        {"odd": b"bytes"},
        {"odd": "\ud800"},
        {"odd": "a\x00b"},
        {"odd\x00": 1},
        {1: "a number for a name"},
        {"odd": object()},
        nested(100_000),
        {"odd": [0] * 40_000},
        {f"member {number}": "x" * 199 for number in range(1000)},
    ],
    ids=lambda odd: str(next(iter(odd)))[:12],
)
def test_no_receipt_is_too_odd_to_be_recorded(odd):
    fitted = fitting({"id": "ch_1", **odd})
    assert fitted["id"] == "ch_1"
    assert len(canonical(fitted)) <= LARGEST_JSON_BYTES
    assert b"\\u0000" not in canonical(fitted)


def test_a_receipt_that_is_no_object_is_no_reason_to_lose_the_effect():
    assert fitting(None) == {"truncated": {"bytes": 2, "sha256": digest("{}"), "because": "It is no JSON object."}}


def test_a_number_that_json_cannot_hold_is_kept_as_text():
    assert fitting({"id": 2**60, "small": 5})["id"] == str(2**60)
    assert fitting({"id": 2**60, "small": 5})["small"] == 5


def test_secrets_do_not_get_into_records():
    keep_secret("hunter-22")
    token = new_token()
    said = Applied(provider_id="id-hunter-22", receipt={"echo": ["hunter-22", {token: f"Bearer {token}"}]})
    assert fit(said) == Applied(provider_id="id-***", receipt={"echo": ["***", {"onw_***": "Bearer onw_***"}]})
    assert fit(Several((said, said))) == Several((fit(said), fit(said)))
    for kind in (Refused, NotSent, CannotTell):
        assert fit(kind("no: hunter-22\x00")) == kind("no: ***�")
    assert fit(Absent()) == Absent()
    large = fitting({"echo": "hunter-22", "page": "x" * 70_000})
    assert large["echo"] == "***"


def test_texts_are_cut():
    assert len(fit(Refused("x" * 10_000)).reason) == LONGEST_TEXT
    assert len(fit(Applied(provider_id="x" * 10_000, receipt={})).provider_id) == LONGEST_ID
    assert fit(Applied(provider_id=17, receipt={})).provider_id == "17"
