"""The variants by which the design was found: leases, both fences, the id, and what may be believed about `absent`."""

from __future__ import annotations

from experiments.protocol_model.variant import BACK, DUPLICATE, EARLY, Variant


def _first(letter: str, what: str, **fields: object) -> Variant:
    """One of the variants that settled the design, under the letter that it had."""
    return Variant(name=letter, what=what, **fields)  # pyright: ignore[reportArgumentType] - fields of the class


FIRST = (
    _first("A", "the full protocol, idempotent provider", hands=1, replans=True, ends=True),
    _first("A2", "A with a network that duplicates requests", hands=1, duplicates=True),
    _first("B", "queryable, not idempotent: absent is held", idempotent=False, absent="hold", ends=True),
    _first("BF", "B without the ledger's fence", idempotent=False, absent="hold", fences_ledger=False),
    _first(
        "BG",
        "B without both fences, behind what that breaks",
        idempotent=False,
        absent="hold",
        fences_ledger=False,
        fences_checkpoint=False,
        tolerates=BACK,
    ),
    _first("C", "not idempotent: absent is sent again at once", idempotent=False, absent="at once", breaks=DUPLICATE),
    _first(
        "D",
        "not idempotent: absent is sent again when no sender is left and the network is quiet",
        idempotent=False,
        absent="when settled",
        window="quiesced",
        check="none",
        suspends=True,
        ends=True,
    ),
    _first(
        "E", "A without the checkpoint's fence", hands=1, fences_checkpoint=False, replans=True, steps=2, breaks=BACK
    ),
    _first(
        "E2",
        "E with the arguments in the id, behind what that breaks",
        hands=1,
        fences_checkpoint=False,
        replans=True,
        action_id="arguments",
        tolerates=BACK,
        breaks=DUPLICATE,
    ),
    _first("F", "A without the ledger's fence", hands=1, fences_ledger=False, replans=True),
    _first(
        "G", "A without both fences", hands=1, fences_ledger=False, fences_checkpoint=False, replans=True, breaks=BACK
    ),
    _first(
        "G2",
        "G behind what that breaks: once-ness does not rest on the fences",
        hands=1,
        fences_ledger=False,
        fences_checkpoint=False,
        tolerates=BACK,
    ),
    _first(
        "H",
        "no fences, the arguments in the id",
        hands=1,
        fences_ledger=False,
        fences_checkpoint=False,
        replans=True,
        action_id="arguments",
        breaks=BACK,
    ),
    _first("H2", "both fences, the arguments in the id", hands=1, replans=True, action_id="arguments"),
    _first(
        "H3",
        "H behind what that breaks",
        hands=1,
        fences_ledger=False,
        fences_checkpoint=False,
        replans=True,
        action_id="arguments",
        tolerates=BACK,
        breaks=DUPLICATE,
    ),
    _first("I", "a fresh id for every attempt", hands=1, action_id="attempt", breaks=DUPLICATE),
    _first(
        "J",
        "what is in flight is silently sent again, not idempotent",
        idempotent=False,
        absent="hold",
        resends_in_flight=True,
        breaks=DUPLICATE,
    ),
    _first(
        "K",
        "the success is recorded before the send, behind what that breaks",
        succeeds_early=True,
        tolerates=EARLY,
        breaks=frozenset({"lost effect"}),
    ),
    _first(
        "L",
        "no ledger, no idempotency, no fence: a plain graph",
        ledger=False,
        idempotent=False,
        fences_checkpoint=False,
        replans=True,
        breaks=DUPLICATE | BACK,
    ),
    _first(
        "M",
        "no ledger, idempotent provider, no fence",
        ledger=False,
        fences_checkpoint=False,
        replans=True,
        breaks=BACK,
    ),
    _first(
        "M2",
        "M behind what that breaks",
        ledger=False,
        fences_checkpoint=False,
        tolerates=BACK,
    ),
    _first(
        "N",
        "A with a provider that forgets the key, whose age nobody minds",
        hands=1,
        forgets=True,
        minds_age=False,
        breaks=DUPLICATE,
    ),
    _first(
        "O",
        "B with a network that duplicates requests: no ledger can help a provider that does not notice",
        idempotent=False,
        absent="hold",
        duplicates=True,
        breaks=DUPLICATE,
    ),
    _first(
        "P",
        "not idempotent: the claim is checked as the last act before the write, absent is believed when it is quiet",
        idempotent=False,
        absent="when settled",
        window="quiet",
        check="fence",
        ends=True,
    ),
    _first(
        "PF",
        "P without the ledger's fence",
        idempotent=False,
        absent="when settled",
        window="quiet",
        check="fence",
        fences_ledger=False,
    ),
    _first(
        "Q",
        "P without that check",
        idempotent=False,
        absent="when settled",
        window="quiet",
        check="none",
        suspends=True,
        breaks=DUPLICATE,
    ),
)

# Larger ones, for the command line.
LARGE = (
    _first("A0", "A with two effects and three epochs", hands=1, replans=True, steps=2, epochs=3),
    _first("A1", "A with three drivers and four epochs", hands=1, drivers=3, epochs=4, replans=True),
    _first("A3", "A1 with a network that duplicates", hands=1, drivers=3, epochs=4, duplicates=True),
    _first("D0", "D with three epochs", idempotent=False, absent="when settled", window="quiesced", epochs=3),
    _first(
        "P0", "P with three epochs", idempotent=False, absent="when settled", window="quiet", check="fence", epochs=3
    ),
)
