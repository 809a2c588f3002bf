-- Version 2: workers, take-overs that are counted, rights and budgets, answers to graphs that are not ours.

alter table runs add column takeovers        integer not null default 0 check (takeovers >= 0);
alter table runs add column budget_tokens    bigint check (budget_tokens >= 0);
alter table runs add column allowed_kinds    jsonb;
create index runs_queued on runs (run_id) where status = 'queued';
create index runs_driven on runs (run_id) where status in ('running', 'cancel_requested');
create index runs_parent on runs (parent) where parent is not null;
alter table leases add column missed_at  timestamptz;
create index leases_holder on leases (holder_id) where holder_id is not null;

create table workers (
    holder_id   integer primary key references holders,
    versions    jsonb not null,
    concurrency integer not null check (concurrency > 0),
    seen_at     timestamptz not null default onward_now()
);

create table answers (
    run_id       text not null references runs,
    interrupt_id text not null,
    value        jsonb not null,
    principal    text not null,
    created_at   timestamptz not null default onward_now(),
    primary key (run_id, interrupt_id)
);

create table cursors (
    name     text primary key,
    position bigint not null
);

create table barred (
    tenant     text not null,
    principal  text not null,
    reason     text not null,
    barred_by  text not null,
    created_at timestamptz not null default onward_now(),
    primary key (tenant, principal)
);

-- One read of pg_locks for all holders instead of one for each.
drop view claimable;
drop function onward_holder_alive(integer);
-- Who holds a key now: one read of pg_locks for all. It is not one snapshot over all partitions of the lock table, so
-- one "no" proves nothing: who acts on it looks twice.
create view living_holders as
select objid::bigint::integer as holder_id from pg_locks
where locktype = 'advisory' and granted and objsubid = 2
  and database = (select oid from pg_database where datname = current_database())
  and classid = holder_class()::oid;

-- Does the holder's session live?
create function onward_holder_alive(id integer) returns boolean language sql volatile as $$
    select exists (select from living_holders where holder_id = id)
$$;

-- What a driver may claim now. Whoever takes a run "gone" looks a second time, 150 ms later.
create view claimable as
select r.run_id, r.workflow_version, r.status, l.epoch, l.holder_id,
       case when r.status = 'queued' then 'queued' when l.holder_id is null then 'released'
            when l.expires_at <= onward_now() then 'expired' else 'gone' end as why
from runs r left join leases l using (run_id)
where (r.status = 'queued' and (r.wake_at is null or r.wake_at <= onward_now()))
   or (r.status in ('running', 'cancel_requested')
       and (l.run_id is null or l.expires_at <= onward_now()  -- a lease that nobody holds may be put off
            or (l.holder_id is not null and not onward_server_is_young(l.seconds)
                and not exists (select from living_holders h where h.holder_id = l.holder_id))));

-- A hint for the workers: "look at this run". It is a job of Procrastinate's, deferred in the transaction that writes
-- the run's row, and it decides nothing. Where no worker ever was, the queue is not there and nobody needs a hint.
create function hint(run text, queue text, due timestamptz) returns void
language plpgsql set search_path from current as $$
begin
    if to_regclass('procrastinate_jobs') is null then
        return;
    end if;
    perform procrastinate_defer_jobs_v1(array[
        row(queue, 'onward.look', 0, null, run, jsonb_build_object('run_id', run), due)::procrastinate_job_to_defer_v1]);
exception when unique_violation then          -- one is waiting already: let it be due no later than this one
    update procrastinate_jobs
    set queue_name = queue,
        scheduled_at = case when due is not null and scheduled_at is not null then least(scheduled_at, due) end
    where queueing_lock = run and status = 'todo' and (scheduled_at is not null or queue_name <> queue);
end $$;

create function hint_run() returns trigger language plpgsql set search_path from current as $$
begin
    perform hint(new.run_id, new.workflow_version, new.wake_at);
    return null;
end $$;

create trigger hint_new_run after insert on runs
    for each row when (new.status = 'queued') execute function hint_run();

-- A run whose driver lives is stopped by that driver; one whose driver is gone, the sweepers find.
create trigger hint_changed_run after update of status, wake_at, workflow_version on runs
    for each row when (new.status = 'queued' or (new.status = 'cancel_requested' and old.status in ('queued', 'waiting_human')))
    execute function hint_run();
