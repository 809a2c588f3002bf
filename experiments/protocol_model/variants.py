"""Variants of the protocol: what each provider class may rely on, and each known mistake with what it must lead to.

A variant that must hold and does not is a defect of the protocol. One that must be caught and is not is a defect of the
model: it could not see that mistake.
"""

from __future__ import annotations

from experiments.protocol_model.first_variants import FIRST, LARGE
from experiments.protocol_model.mistakes import MUTANTS, TRAPS
from experiments.protocol_model.variant import Variant

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

VARIANTS = {variant.name: variant for variant in (*OURS, *TRAPS, *MUTANTS, *FIRST)}
EVERY = VARIANTS | {variant.name: variant for variant in LARGE}
