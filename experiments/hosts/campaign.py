"""The cases one after the other: workers, runs, the fault, the heal, the end, and what stands then."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path

from experiments import look
from experiments.errors import NotRun
from experiments.hosts import judging, skew
from experiments.hosts.errors import NotStruck
from experiments.hosts.faults import Fault
from experiments.hosts.gate import PORT as GATE_PORT
from experiments.hosts.judging import Seen
from experiments.hosts.load import Claim
from experiments.hosts.postgres import PORT
from experiments.hosts.results import Case, Results
from experiments.hosts.scene import Scene
from experiments.hosts.services import gate_on
from experiments.hosts.size import CONCURRENCY, RUNS, WORKERS
from experiments.hosts.skew import Clock
from experiments.hosts.stand import Stand, open_stand
from runs.errors import RunFinished
from runs.store import open_store

Tell = Callable[[str], None]

# From the heal to the end of every run: the longest back-off, the longest wait for a ledger, and the work itself.
END_SECONDS = 120.0
BACK_SECONDS = 120.0
NO_FAULT = Fault(name="no fault", group="none", strike=lambda scene: scene.healed(), thefts=False)


def run_campaign(wanted: Sequence[Fault], tell: Tell, keep: Path | None = None) -> Results:
    """Run these cases. With `keep`, the logs of a case that is not as it should be are copied there."""
    began = time.monotonic()
    tell(f"{len(wanted)} cases on {WORKERS + 3} hosts; starting Postgres, the ledger and the sink")
    with open_stand() as stand:
        reference, first = _run(stand, NO_FAULT, None)
        tell(f"without a fault: {first.word}")
        cases = [first]
        for number, fault in enumerate(wanted, 1):
            if reference is None:
                break
            _, case = _run(stand, fault, reference)
            cases.append(case)
            tell(f"[{number}/{len(wanted)}] {case.name}: {case.word}; {case.seconds:.0f} s")
            if keep is not None and (case.broken or case.invalid):
                _keep(stand, case, keep)
    return Results(cases=tuple(cases), seconds=time.monotonic() - began)


def _run(stand: Stand, fault: Fault, reference: Seen | None) -> tuple[Seen | None, Case]:
    """A case, and one of its runs for others to be compared with."""
    began = time.monotonic()
    try:
        with ExitStack() as stack:
            scene = _prepared(stand, fault, stack)
            fault.strike(scene)
            end = _to_the_end(scene, fault, reference)
        return end.seen[0], _summed(scene, fault, end, time.monotonic() - began)
    except NotRun as error:
        return None, Case(name=fault.name, group=fault.group, not_run=str(error), seconds=time.monotonic() - began)
    except NotStruck as error:
        return None, Case(name=fault.name, group=fault.group, invalid=str(error), seconds=time.monotonic() - began)
    finally:
        look.close_connections()


def _prepared(stand: Stand, fault: Fault, stack: ExitStack) -> Scene:
    """Workers that are ready, and runs for them."""
    for log in (host_log for host_log in stand.folder.glob("home-*.log")):
        log.unlink()
    clock, gate, dsn = None, None, None
    if fault.clock_seconds is not None:
        clock = Clock(skew.compile_library(stand.folder), stand.folder / "clock")
        clock.shift(fault.clock_seconds)
    if fault.through_gate:
        (stand.folder / "gate.log").unlink(missing_ok=True)
        gate = stack.enter_context(gate_on(stand.server.host, stand.folder, PORT))
        dsn = stand.server.dsn_at(GATE_PORT)
    victim = stack.enter_context(stand.worker(stand.worker_hosts[0], dsn=dsn, clock=clock))
    other = stack.enter_context(stand.worker(stand.worker_hosts[1], dsn=dsn))
    for worker in (victim, other):
        worker.wait_until_ready()
    scene = Scene(stand, victim, other, clock=clock, gate=gate)
    stack.enter_context(scene.load)
    scene.load.begin(RUNS)
    return scene


@dataclass(frozen=True, kw_only=True)
class _End:
    """What stands when the runs of a case have ended, or do not end."""

    seen: Sequence[Seen]
    broken: Sequence[str]
    claims: Sequence[Claim]
    claimed: float | None
    back: float | None
    progress: datetime | None
    ended: datetime | None


def _to_the_end(scene: Scene, fault: Fault, reference: Seen | None) -> _End:
    """Wait for every run, then let the worker that was hit work alone; what stands then, and what is wrong with it."""
    load, broken = scene.load, list(scene.wrong)
    first = list(load.run_ids)
    load.wait(lambda: not load.open(), END_SECONDS)
    broken += [f"the worker on {w.host.name} ended by itself" for w in (scene.victim, scene.other) if not w.alive]
    claimed, back = _back(scene)
    if back is None:
        places = f"{CONCURRENCY} new runs, side by side"
        broken.append(f"the worker that was hit did not end {places}, within {BACK_SECONDS:.0f} s")
    seen, claims = [_seen(scene, run_id) for run_id in first], [c for c in load.claims() if c.run_id in first]
    broken += [what for run in seen for what in judging.judge(fault.name, run, reference or seen[0])]
    if not fault.thefts:
        stolen = judging.thefts(claims)
        broken += [f"{claim.run_id[:8]}: taken from a live driver ({claim.why}) by {claim.host}" for claim in stolen]
    waiting = scene.open_at_heal if scene.healed_at is not None else []
    return _End(
        seen=seen,
        broken=[*broken, *_driven_again(scene, seen)],
        claims=claims,
        claimed=claimed,
        back=back,
        progress=load.first_progress(waiting, scene.healed_at) if waiting and scene.healed_at else None,
        ended=load.last_end(waiting) if waiting else None,
    )


def _back(scene: Scene) -> tuple[float | None, float | None]:
    """The worker that was hit, alone, with a run for each of its places: when it claims the first, when all ended."""
    scene.other.stop()
    began, load = time.monotonic(), scene.load
    fresh = load.begin(scene.victim.concurrency)
    claimed: float | None = None
    most = 0

    def ended() -> bool:
        nonlocal most, claimed
        most = max(most, len(load.driven(fresh)))
        claimed = claimed or (time.monotonic() - began if most else None)
        return not load.open(fresh)

    if not load.wait(ended, BACK_SECONDS) or most < scene.victim.concurrency:
        return claimed, None
    return claimed, time.monotonic() - began


def _seen(scene: Scene, run_id: str) -> Seen:
    return Seen(
        run_id=run_id,
        world=look.look_at_run(scene.stand.settings, scene.stand.sink, run_id),
        steps=scene.load.steps_started().get(run_id, 0),
        epochs=tuple(scene.load.epochs(run_id)),
    )


def _driven_again(scene: Scene, seen: Sequence[Seen]) -> list[str]:
    """I10: somebody drives the finished runs once more."""
    from runs.assembly import parts_for
    from runs.drain import Drain
    from runs.drive import drive

    finished, broken = [run for run in seen if run.completed], list[str]()
    store = open_store(scene.stand.settings)
    with parts_for(scene.stand.settings, Drain()) as parts:
        for run in finished:
            try:
                drive(run.run_id, replace(parts, open_database=store.database))
            except RunFinished:
                continue
            broken.append(f"{run.run_id[:8]}: I10 a finished run executes nothing: it could be driven again")
    before = {run.run_id: run.world for run in finished}
    return broken + judging.repeated(before, {run.run_id: _seen(scene, run.run_id).world for run in finished})


def _summed(scene: Scene, fault: Fault, end: _End, seconds: float) -> Case:
    evidence = [run.evidence(fault.name) for run in end.seen]
    return Case(
        name=fault.name,
        group=fault.group,
        seconds=seconds,
        broken=tuple(end.broken),
        runs=len(end.seen),
        hit=len(scene.hit),
        completed=sum(run.completed for run in end.seen),
        duplicates=sum(each.duplicates for each in evidence),
        lost=sum(each.lost for each in evidence if each.after.status == "succeeded"),
        unknown=sum(each.after.unknown for each in evidence),
        stuck=sum(run.stuck for run in end.seen),
        takeovers=sum(claim.epoch > 1 for claim in end.claims),
        robbed=len(judging.thefts(end.claims)),
        takeover=_after(scene.struck_at, _first_takeover(end.claims, scene.struck_at)),
        progress=_after(scene.healed_at, end.progress),
        ended=_after(scene.healed_at, end.ended),
        claimed=end.claimed,
        back=end.back,
        notes=tuple(scene.notes),
        claims=tuple(asdict(claim) | {"at": claim.at.isoformat()} for claim in end.claims),
    )


def _first_takeover(claims: Sequence[Claim], struck_at: datetime | None) -> datetime | None:
    later = [claim.at for claim in claims if claim.epoch > 1 and struck_at is not None and claim.at > struck_at]
    return min(later) if later else None


def _after(begin: datetime | None, end: datetime | None) -> float | None:
    return round((end - begin).total_seconds(), 3) if begin is not None and end is not None else None


def _keep(stand: Stand, case: Case, keep: Path) -> None:
    folder = keep / case.name.replace(" ", "-").replace(",", "").replace("'", "")
    folder.mkdir(parents=True, exist_ok=True)
    for log in (*stand.folder.glob("*.log"), *stand.folder.glob("*.err"), *stand.folder.glob("home-*/*.log")):
        shutil.copy(log, folder / f"{log.parent.name}-{log.name}")
