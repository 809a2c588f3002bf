-- What the sweepers of workers ask. The queue is Procrastinate's; its tables stand in our schema.

-- name: has_queue
select to_regclass('procrastinate_jobs') is not null as found;

-- name: hint_takeable
-- Driven runs whose driver is gone or hangs. The look is noted in the lease row, for every worker: it is the first of
-- the two, and for one second nobody else gives the same hint. A take-over in progress holds the row: it is skipped.
with missed as (
    update leases set missed_at = onward_now()
    where run_id in (
        select l.run_id from claimable c join leases l using (run_id)
        where c.status in ('running', 'cancel_requested')
          and %(versions)s::jsonb ? c.workflow_version
          and (l.missed_at is null or l.missed_at < onward_later(onward_now(), -1.0))
        for update of l skip locked)
    returning run_id)
select r.run_id, hint(r.run_id, r.workflow_version, null) from missed join runs r using (run_id);

-- name: hint_unhinted
-- Queued runs whose hint was lost, a page at a time: the queue may be long, and hints are seldom lost.
with page as (
    select run_id, workflow_version, wake_at from runs
    where status = 'queued' and run_id > %(after)s order by run_id limit %(limit)s),
lost as (
    select p.run_id, p.workflow_version from page p
    where %(versions)s::jsonb ? p.workflow_version and (p.wake_at is null or p.wake_at <= onward_now())
      and not exists (select from procrastinate_jobs j where j.queueing_lock = p.run_id and j.status = 'todo'))
select (select max(run_id) from page) as last, count(hint(run_id, workflow_version, null)) as hinted from lost;

-- name: hint_released
-- A run that somebody wants stopped and nobody ever drove has no lease row to note a look in.
select r.run_id, hint(r.run_id, r.workflow_version, null) from claimable c join runs r using (run_id)
where c.status = 'cancel_requested' and c.epoch is null and %(versions)s::jsonb ? c.workflow_version
  and not exists (select from procrastinate_jobs j where j.queueing_lock = r.run_id and j.status = 'todo');
