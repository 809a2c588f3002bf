"""The work that every system does: five steps of a tenth of a second, and one effect in the middle of the third.

The effect is one request to an API that makes one more thing for each, and can be searched. A step says when it begins
and when it has ended (experiments.recovering.marks). Nothing here knows which system runs it, and nothing but the
standard library is imported, so that no system waits for imports that are not its own.
"""

from __future__ import annotations

import json
import os
import time
import urllib.request
from collections.abc import Callable

from experiments.recovering.marks import tell

STEPS = 5
EFFECT_STEP = 3
HALF_STEP_SECONDS = 0.05

SINK = "RECOVERING_SINK"
ANSWER_SECONDS = 10.0


def step(run_id: str, number: int, effect: Callable[[str], object]) -> int:
    """One step of a run, from 1; its number."""
    tell(run_id, number, "begin")
    time.sleep(HALF_STEP_SECONDS)
    if number == EFFECT_STEP:
        effect(run_id)
    time.sleep(HALF_STEP_SECONDS)
    tell(run_id, number, "end")
    return number


def post(run_id: str) -> str:
    """The effect, performed by whoever calls; the id that the API gave it. The marker says which run it is of."""
    body = json.dumps({"marker": run_id}).encode()
    address = f"{os.environ[SINK]}/searchable/things"
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"})  # noqa: S310  loopback
    with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:  # noqa: S310
        return str(json.loads(answer.read())["id"])
