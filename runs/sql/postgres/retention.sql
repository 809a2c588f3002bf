-- Removal by age. Whoever removes locks the run's row, then its lease row, and leaves alone what somebody holds.

-- name: has_checkpoint_tables
-- They appear with the first drive.
select to_regclass('checkpoints') is not null as found;

-- name: has_queue
-- It appears with the first worker.
select to_regclass('procrastinate_jobs') is not null as found;

-- name: old_runs
-- Finished before that instant, behind the cursor, the longest finished first.
select run_id, status::text as status, reason, store, objects, ledger, created_at, finished_at from runs
where finished_at < %(before)s
  and (%(after)s::timestamptz is null or (finished_at, run_id) > (%(after)s::timestamptz, %(after_id)s::text))
order by finished_at, run_id limit %(limit)s;

-- name: forks_of
-- Runs that were made from this one. Their rows refer to it.
select run_id from runs where parent = %(run_id)s order by run_id;

-- name: count_events
select count(*) as events from events where run_id = %(run_id)s;

-- name: count_checkpoints
-- `heads`: of each namespace the last one, from which a run goes on.
select count(*) as checkpoints, count(distinct checkpoint_ns) as heads from checkpoints where thread_id = %(run_id)s;

-- name: lock_finished_run
-- A run that somebody forks, shows or removes at this moment is left to the next time.
select version from runs where run_id = %(run_id)s and finished_at < %(before)s for update skip locked;

-- name: lock_free_lease
-- No row: somebody holds it, or nobody has ever driven the run (epoch_of tells them apart).
select epoch from leases where run_id = %(run_id)s for update skip locked;

-- name: remove_checkpoint_writes
delete from checkpoint_writes where thread_id = %(run_id)s;

-- name: remove_checkpoint_blobs
delete from checkpoint_blobs where thread_id = %(run_id)s;

-- name: remove_checkpoints
delete from checkpoints where thread_id = %(run_id)s;

-- name: remove_hint
delete from procrastinate_jobs where queueing_lock = %(run_id)s and status = 'todo';

-- name: remove_answers
delete from answers where run_id = %(run_id)s;

-- name: remove_events
delete from events where run_id = %(run_id)s;

-- name: remove_lease
-- Without it the fence refuses every writer that says it is a driver of this run.
delete from leases where run_id = %(run_id)s;

-- name: remove_run
-- The last one: a removal that was killed before is seen, and done again.
delete from runs where run_id = %(run_id)s;

-- name: idle_runs
-- Nobody drives them and nobody has changed them since that instant, and they have more than what they go on from.
select r.run_id, r.status::text as status, n.checkpoints, n.heads
from runs r
cross join lateral (
    select count(*) as checkpoints, count(distinct c.checkpoint_ns) as heads
    from checkpoints c where c.thread_id = r.run_id) n
where (r.status in ('queued', 'waiting_human') or r.finished_at is not null)
  and r.updated_at < %(before)s and r.run_id > %(after_id)s and n.checkpoints > n.heads
order by r.run_id limit %(limit)s;

-- name: lock_idle_run
-- A claim waits for it; the claim of another process that came first makes us pass on.
select version from runs
where run_id = %(run_id)s and updated_at < %(before)s
  and (status in ('queued', 'waiting_human') or finished_at is not null)
for no key update skip locked;

-- name: lock_idle_lease
-- A claim waits for it, a checkpoint's trigger (FOR KEY SHARE) does not: the checkpointer thins through it.
select epoch from leases where run_id = %(run_id)s for no key update skip locked;

-- name: count_dead_workers
-- Their session lock is gone, and they have not been seen for long.
select count(*) as number from workers w
where w.seen_at < %(before)s and not onward_holder_alive(w.holder_id);

-- name: remove_dead_workers
delete from workers w where w.seen_at < %(before)s and not onward_holder_alive(w.holder_id);

-- name: count_dead_holders
-- Processes that have ended and that nobody refers to. One that is just starting has no lock yet, so: older ones.
with alive as (
    select objid::bigint as holder_id from pg_locks
    where locktype = 'advisory' and granted and objsubid = 2 and classid = holder_class()::oid
      and database = (select oid from pg_database where datname = current_database()))
select count(*) as number from holders h
where h.started_at < %(before)s
  and not exists (select from alive a where a.holder_id = h.holder_id)
  and not exists (select from leases l where l.holder_id = h.holder_id)
  and not exists (select from workers w where w.holder_id = h.holder_id
                  and not (w.seen_at < %(before)s and not onward_holder_alive(w.holder_id)));

-- name: remove_dead_holders
with alive as (
    select objid::bigint as holder_id from pg_locks
    where locktype = 'advisory' and granted and objsubid = 2 and classid = holder_class()::oid
      and database = (select oid from pg_database where datname = current_database()))
delete from holders h
where h.started_at < %(before)s
  and not exists (select from alive a where a.holder_id = h.holder_id)
  and not exists (select from leases l where l.holder_id = h.holder_id)
  and not exists (select from workers w where w.holder_id = h.holder_id);

-- name: count_old_jobs
-- Jobs that are over, and those of workers whose heartbeat is gone. A job decides nothing, so none is missed.
select count(*) as number from procrastinate_jobs j
where (j.status in ('succeeded', 'failed', 'cancelled', 'aborting', 'aborted')
       or (j.status = 'doing' and not exists (
           select from procrastinate_workers w where w.id = j.worker_id and w.last_heartbeat >= %(before)s)))
  and not exists (select from procrastinate_periodic_defers d where d.job_id = j.id);

-- name: remove_old_jobs
delete from procrastinate_jobs j
where (j.status in ('succeeded', 'failed', 'cancelled', 'aborting', 'aborted')
       or (j.status = 'doing' and not exists (
           select from procrastinate_workers w where w.id = j.worker_id and w.last_heartbeat >= %(before)s)))
  and not exists (select from procrastinate_periodic_defers d where d.job_id = j.id);

-- name: remove_old_queue_workers
delete from procrastinate_workers where last_heartbeat < %(before)s;
