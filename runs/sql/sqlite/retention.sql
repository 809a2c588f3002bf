-- Removal by age. A write transaction holds the whole file, so nobody else writes meanwhile.

-- name: has_checkpoint_tables
-- They appear with the first drive.
select count(*) > 0 as found from sqlite_master where type = 'table' and name = 'checkpoints';

-- name: has_queue
-- Workers need Postgres.
select 0 as found;

-- name: old_runs
-- Finished before that instant, behind the cursor, the longest finished first.
select run_id, status, reason, store, objects, ledger, created_at, finished_at from runs
where finished_at < :before and (:after is null or (finished_at, run_id) > (:after, :after_id))
order by finished_at, run_id limit :limit;

-- name: forks_of
-- Runs that were made from this one. Their rows refer to it.
select run_id from runs where parent = :run_id order by run_id;

-- name: count_events
select count(*) as events from events where run_id = :run_id;

-- name: count_checkpoints
-- `heads`: of each namespace the last one, from which a run goes on.
select count(*) as checkpoints, count(distinct checkpoint_ns) as heads from checkpoints where thread_id = :run_id;

-- name: lock_finished_run
select version from runs where run_id = :run_id and finished_at < :before;

-- name: lock_free_lease
-- No row: nobody has ever driven the run.
select epoch from leases where run_id = :run_id;

-- name: remove_checkpoint_writes
delete from writes where thread_id = :run_id;

-- name: remove_checkpoint_blobs
-- Here the values lie in the checkpoints themselves.
select 1 where false and :run_id is not null;

-- name: remove_checkpoints
delete from checkpoints where thread_id = :run_id;

-- name: remove_hint
select 1 where false and :run_id is not null;

-- name: remove_answers
delete from answers where run_id = :run_id;

-- name: remove_events
delete from events where run_id = :run_id;

-- name: remove_lease
-- Without it the fence refuses every writer that says it is a driver of this run.
delete from leases where run_id = :run_id;

-- name: remove_run
-- The last one: a removal that was killed before is seen, and done again.
delete from runs where run_id = :run_id;

-- name: idle_runs
-- Nobody drives them and nobody has changed them since that instant, and they have more than what they go on from.
select r.run_id, r.status, count(*) as checkpoints, count(distinct c.checkpoint_ns) as heads
from runs r join checkpoints c on c.thread_id = r.run_id
where (r.status in ('queued', 'waiting_human') or r.finished_at is not null)
  and r.updated_at < :before and r.run_id > :after_id
group by r.run_id having count(*) > count(distinct c.checkpoint_ns)
order by r.run_id limit :limit;

-- name: lock_idle_run
select version from runs
where run_id = :run_id and updated_at < :before
  and (status in ('queued', 'waiting_human') or finished_at is not null);

-- name: lock_idle_lease
select epoch from leases where run_id = :run_id;

-- name: count_dead_workers
select count(*) as number from workers w
where w.seen_at < :before and not onward_holder_alive(w.holder_id);

-- name: remove_dead_workers
delete from workers where seen_at < :before and not onward_holder_alive(holder_id);

-- name: count_dead_holders
-- Processes that have ended and that nobody refers to. One that is just starting has no lock yet, so: older ones.
select count(*) as number from holders h
where h.started_at < :before and not onward_holder_alive(h.holder_id)
  and not exists (select 1 from leases l where l.holder_id = h.holder_id)
  and not exists (select 1 from workers w where w.holder_id = h.holder_id and w.seen_at >= :before);

-- name: remove_dead_holders
delete from holders
where started_at < :before and not onward_holder_alive(holder_id)
  and not exists (select 1 from leases l where l.holder_id = holders.holder_id)
  and not exists (select 1 from workers w where w.holder_id = holders.holder_id);

-- name: count_old_jobs
select 0 as number where :before is not null;

-- name: remove_old_jobs
select 1 where false and :before is not null;

-- name: remove_old_queue_workers
select 1 where false and :before is not null;
