"""Variants of the protocol: what each provider class may rely on, and each known mistake with what it must lead to.

A variant that must hold and does not is a defect of the protocol. One that must be caught and is not is a defect of the
model: it could not see that mistake.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One protocol in one world.

    The size: `drivers` (0: one caller who is always there), `epochs` that are handed out, effect `steps`, `hands` of
    services. The names of the other fields are read with the class: "this protocol resends_in_flight".
    """

    name: str
    what: str
    breaks: frozenset[str] = NOTHING  # invariants that must be found broken
    tolerates: frozenset[str] = NOTHING  # invariants that are not looked at, to see what follows from breaking them
    ends: bool = False  # checked too: from every state an end can be reached

    drivers: int = 2
    epochs: int = 2
    steps: int = 1
    hands: int = 2

    # The world.
    idempotent: bool = True
    transactional: bool = False
    looks_up: bool = True
    lags: bool = False  # a look-up can miss what happened a moment ago
    forgets: bool = False
    refuses: bool = False
    not_sent: bool = False
    duplicates: bool = False  # the network delivers a request twice
    suspends: bool = False  # a sender sleeps between its check and its write for longer than the declared times
    replans: bool = False  # planning again gives another plan
    asks_anew: bool = False  # a driver that takes over asks for something else

    # The protocol.
    ledger: bool = True
    fences_checkpoint: bool = True
    fences_ledger: bool = True
    action_id: Literal["step", "arguments", "attempt"] = "step"
    check: Literal["deadline", "fence", "none"] = "deadline"
    absent: Literal["when remembered", "when settled", "at once", "hold"] = "when remembered"
    window: Literal["", "deadline", "quiet", "quiesced"] = ""
    minds_age: bool = True
    minds_doubt: bool = True
    approval: bool = False
    operator: bool = False
    cancels: bool = False
    restores: bool = False
    looks_first: bool = True
    waits_after_restore: bool = True

    # Mistakes.
    resends_in_flight: bool = False
    succeeds_early: bool = False
    performs_again: bool = False
    assumes_absent: bool = False
    replays_blindly: bool = False
    approves_everything: bool = False
    error_means_not_done: bool = False
    believes_early_look_up: bool = False
    minds_age_at_look_up_only: bool = False
    refuses_late_truth: bool = False
    contradicts_in_doubt: bool = False
    looks_first_at_proposals_only: bool = False


DUPLICATE = frozenset({"duplicate effect"})
BACK = frozenset({"checkpoint goes back"})
SILENT = frozenset({"unknown settled silently"})

# What the ledger does with each class of provider, with everything that can happen switched on.
OURS = (
    Variant(
        name="transactional",
        what="effect and record are one commit",
        transactional=True,
        idempotent=False,
        absent="hold",
        approval=True,
        refuses=True,
        cancels=True,
        ends=True,
    ),
    Variant(
        name="idempotent",
        what="sent again in doubt while the provider remembers the key",
        drivers=0,
        lags=True,
        forgets=True,
        refuses=True,
        not_sent=True,
        duplicates=True,
        window="deadline",
        operator=True,
        cancels=True,
        ends=True,
    ),
    Variant(
        name="queryable",
        what="looked up; what is absent stays UNKNOWN for a person",
        drivers=0,
        idempotent=False,
        absent="hold",
        window="deadline",
        lags=True,
        refuses=True,
        not_sent=True,
        operator=True,
        cancels=True,
        approval=True,
        ends=True,
    ),
    Variant(
        name="queryable, resend_after_absent",
        what="looked up; what is absent behind the settle window is sent again",
        drivers=0,
        idempotent=False,
        absent="when settled",
        window="deadline",
        lags=True,
        refuses=True,
        not_sent=True,
        operator=True,
        cancels=True,
        ends=True,
    ),
    Variant(
        name="opaque",
        what="UNKNOWN until a person settles it",
        drivers=0,
        idempotent=False,
        looks_up=False,
        absent="hold",
        refuses=True,
        not_sent=True,
        operator=True,
        cancels=True,
        approval=True,
        ends=True,
    ),
    Variant(
        name="restored",
        what="the ledger's database returns to an older backup; first sends are preceded by a look-up",
        drivers=0,
        idempotent=False,
        absent="when settled",
        window="deadline",
        not_sent=True,
        operator=True,
        restores=True,
        ends=True,
    ),
)

# What is known to go wrong: in other ledgers, and in ours with one rule taken out.
TRAPS = (
    Variant(
        name="suspended sender",
        what="resend_after_absent, and a sender sleeps between check and write for longer than the settle window",
        drivers=0,
        idempotent=False,
        absent="when settled",
        window="deadline",
        suspends=True,
        breaks=DUPLICATE,
    ),
    Variant(
        name="suspended sender, forgotten key",
        what="an idempotent provider forgets, and a sender sleeps between check and write until then",
        drivers=0,
        forgets=True,
        suspends=True,
        breaks=DUPLICATE,
    ),
    Variant(
        name="early look-up",
        what="what was asked before the settle window was over is believed behind it",
        drivers=0,
        idempotent=False,
        absent="when settled",
        window="deadline",
        believes_early_look_up=True,
        tolerates=SILENT,
        breaks=DUPLICATE,
    ),
    Variant(
        name="lagging look-up",
        what="absent is believed at once, and the look-up lags behind",
        drivers=0,
        idempotent=False,
        lags=True,
        absent="at once",
        breaks=DUPLICATE | SILENT,
    ),
    Variant(
        name="age at look-up only",
        what="the key's age is minded when the look-up answers, and not when the action is claimed",
        drivers=0,
        forgets=True,
        minds_age_at_look_up_only=True,
        breaks=DUPLICATE,
    ),
    Variant(
        name="no doubt",
        what="a refusal or a withdrawal settles an action whose earlier send may have had its effect",
        drivers=0,
        refuses=True,
        cancels=True,
        minds_doubt=False,
        breaks=frozenset({"settled against the truth"}),
    ),
    Variant(
        name="late truth refused",
        what="a sender's answer is dropped when the record was settled otherwise meanwhile",
        drivers=0,
        operator=True,
        refuses_late_truth=True,
        breaks=frozenset({"late truth hidden"}),
    ),
    Variant(
        name="contradiction in doubt",
        what="`not sent` by the second claim is taken to contradict the success of the first",
        drivers=0,
        not_sent=True,
        contradicts_in_doubt=True,
        breaks=frozenset({"false alarm"}),
    ),
    Variant(
        name="error means not done",
        what="an exception of the send is taken for `nothing happened`",
        drivers=0,
        idempotent=False,
        absent="hold",
        error_means_not_done=True,
        tolerates=SILENT,
        breaks=DUPLICATE,
    ),
    Variant(
        name="restored, no look first",
        what="after a restore actions are sent as if they were new",
        drivers=0,
        idempotent=False,
        absent="when settled",
        window="deadline",
        restores=True,
        looks_first=False,
        breaks=DUPLICATE,
    ),
    Variant(
        name="restored, looks first at proposals only",
        what="after a restore, what stands PREPARED in the backup is sent without a look-up",
        drivers=0,
        idempotent=False,
        absent="when settled",
        window="deadline",
        restores=True,
        looks_first_at_proposals_only=True,
        tolerates=SILENT,
        breaks=DUPLICATE,
    ),
    Variant(
        name="restored, no hold",
        what="after a restore sends begin at once, with requests still in the air",
        drivers=0,
        idempotent=False,
        absent="when settled",
        window="deadline",
        restores=True,
        waits_after_restore=False,
        breaks=DUPLICATE,
    ),
)

# The mutants that the experiments plant into the real ledger, under their names.
MUTANTS = (
    Variant(
        name="no-replay",
        what="a recorded effect is performed again when it is asked for again",
        drivers=0,
        idempotent=False,
        absent="hold",
        performs_again=True,
        breaks=DUPLICATE,
    ),
    Variant(
        name="silent-resend",
        what="an unknown outcome is taken for `not sent`, without asking the provider",
        drivers=0,
        idempotent=False,
        absent="at once",
        assumes_absent=True,
        breaks=DUPLICATE | SILENT,
    ),
    Variant(
        name="early-success",
        what="the success is recorded before the effect is sent",
        succeeds_early=True,
        breaks=frozenset({"succeeded without effect"}),
    ),
    Variant(
        name="blind-replay",
        what="a known id is answered with its receipt without comparing what is asked for",
        asks_anew=True,
        replays_blindly=True,
        breaks=frozenset({"result differs from effect"}),
    ),
    Variant(
        name="resume-value",
        what="whoever asks for the effect says himself that it was approved",
        drivers=0,
        approval=True,
        approves_everything=True,
        breaks=frozenset({"effect without approval"}),
    ),
)

EARLY = frozenset({"succeeded without effect"})


def _first(letter: str, what: str, **fields: object) -> Variant:
    """One of the variants that settled the design, under the letter that it had."""
    return Variant(name=letter, what=what, **fields)  # pyright: ignore[reportArgumentType] - fields of the class


# The variants by which the design was found: leases, both fences, the id, and what may be believed about `absent`.
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
    _first("A1", "A with three drivers and four epochs", drivers=3, epochs=4, replans=True),
    _first("D0", "D with three epochs", idempotent=False, absent="when settled", window="quiesced", epochs=3),
    _first(
        "P0", "P with three epochs", idempotent=False, absent="when settled", window="quiet", check="fence", epochs=3
    ),
)

VARIANTS = {variant.name: variant for variant in (*OURS, *TRAPS, *MUTANTS, *FIRST)}
EVERY = VARIANTS | {variant.name: variant for variant in LARGE}
