-- Runs: who executes, and when. The row is the truth; whatever queue tells a driver to look at a run decides nothing.
-- Everything lives in the schema that is the whole search_path of our connections; nothing of ours is in public.

-- The clock that decides anything. A test sets `onward.now` as a start-up option; nobody else does.
create function onward_now() returns timestamptz language sql stable as $$
    select coalesce(nullif(current_setting('onward.now', true), '')::timestamptz, clock_timestamp())
$$;

create function onward_later(instant timestamptz, seconds double precision) returns timestamptz language sql immutable as $$
    select instant + make_interval(secs => seconds)
$$;

create type run_status as enum (
    'queued',            -- a driver may claim it ──▶ running, cancel_requested
    'running',           -- driven (again running at a take-over) ──▶ succeeded, failed, waiting_human, queued, cancel_requested
    'waiting_human',     -- a person has to decide; no driver ──▶ queued (decided), cancel_requested
    'cancel_requested',  -- somebody asked; not stopped yet (again at a take-over) ──▶ cancelled, succeeded, failed (too late)
    'succeeded',         -- the end
    'failed',            -- the end; `reason` says why
    'cancelled'          -- the end
);

create table runs (
    run_id           text primary key check (run_id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'),
    kind             text not null,
    status           run_status not null default 'queued',
    reason           text,                    -- one word: error, rejected, unverified, deadline, budget, approval …
    message          text,                    -- a plain sentence for people
    version          integer not null default 1 check (version > 0),
    owner            text not null check (owner <> ''),
    tenant           text not null check (tenant <> ''),
    workflow_version text not null check (workflow_version <> ''),
    input_name       text not null,
    input_key        text not null,
    input_digest     text not null check (input_digest ~ '^[0-9a-f]{64}$'),
    input_size       bigint not null check (input_size >= 0),
    asks             jsonb not null default '[]',
    model            text,                    -- null: no language model
    params           jsonb not null default '{}',
    deadline_at      timestamptz,
    budget_micros    bigint check (budget_micros >= 0),           -- millionths of a dollar
    spent_micros     bigint not null default 0 check (spent_micros >= 0),
    input_tokens     bigint not null default 0,
    output_tokens    bigint not null default 0,
    failures         integer not null default 0 check (failures >= 0),  -- transient ones in a row, without a finished step
    wake_at          timestamptz,             -- queued: not before this instant
    parent           text references runs,
    store            text not null,           -- what it was made with; resuming against others is a conflict
    objects          text not null,
    ledger           text not null,
    last_seq         bigint not null default 0,
    created_at       timestamptz not null default onward_now(),
    updated_at       timestamptz not null default onward_now(),
    finished_at      timestamptz,
    takeovers        integer not null default 0 check (takeovers >= 0),  -- in a row, without a finished step or checkpoint
    budget_tokens    bigint check (budget_tokens >= 0),           -- of input and output together
    allowed_kinds    jsonb,                   -- kinds of effects that the run may use, as written at its start; null: any
    check ((status in ('succeeded', 'failed', 'cancelled')) = (finished_at is not null)),
    check (status not in ('failed', 'waiting_human') or reason is not null),
    check (wake_at is null or status = 'queued')
);
create index runs_unfinished on runs (status, wake_at) where finished_at is null;
create index runs_newest on runs (created_at desc);
create index runs_queued on runs (run_id) where status = 'queued';
create index runs_driven on runs (run_id) where status in ('running', 'cancel_requested');
create index runs_parent on runs (parent) where parent is not null;

-- A run's durable history. seq comes from the run row's counter, in the event's own transaction: the row lock makes
-- commit order the order of the numbers, so a follower that has seen n misses nothing before it.
create table events (
    run_id     text not null references runs,
    seq        bigint not null check (seq > 0),
    epoch      bigint,                        -- null: not written by a driver
    kind       text not null,
    step       text,
    data       jsonb not null default '{}',
    created_at timestamptz not null default onward_now(),
    primary key (run_id, seq)
);
create index events_of_step on events (run_id, step, kind) where step is not null;

-- One row per driving process. While it lives its session holds the advisory lock (holder_class(), holder_id).
create table holders (
    holder_id         integer generated always as identity primary key,
    kind              text not null,
    host              text not null,
    pid               integer not null,
    process_started   double precision not null,  -- seconds since 1970 by its own kernel: tells a reused pid apart
    started_at        timestamptz not null default onward_now()
);

-- Who may drive a run, until when. The epoch (fencing token) is stored here only.
create table leases (
    run_id     text primary key references runs,
    epoch      bigint not null check (epoch > 0),
    holder_id  integer references holders,    -- null: released
    seconds    double precision not null check (seconds > 0),
    expires_at timestamptz not null,
    missed_at  timestamptz,                   -- the first of two looks that found the holder absent; a heartbeat clears it
    unique (run_id, epoch)                    -- makes the epoch part of a key: see hold_fence()
);
create index leases_holder on leases (holder_id) where holder_id is not null;

-- Which worker serves what. It lives while the session lock of its holder is held.
create table workers (
    holder_id   integer primary key references holders,
    versions    jsonb not null,               -- the workflow versions that it serves
    concurrency integer not null check (concurrency > 0),
    seen_at     timestamptz not null default onward_now()
);

-- Answers to the interrupts of graphs that are not ours. The first one stands.
create table answers (
    run_id       text not null references runs,
    interrupt_id text not null,
    value        jsonb not null,
    principal    text not null,
    created_at   timestamptz not null default onward_now(),
    primary key (run_id, interrupt_id)
);

-- How far a feed of somebody else's was followed.
create table cursors (
    name     text primary key,
    position bigint not null
);

-- Who may not act any more: their runs are not driven on.
create table barred (
    tenant     text not null,
    principal  text not null,
    reason     text not null,
    barred_by  text not null,
    created_at timestamptz not null default onward_now(),
    primary key (tenant, principal)
);

-- A key class of our own in the database's advisory locks, so that two installations in one database do not meet.
create function holder_class() returns integer language sql stable as $$
    select hashtext('onward holder ' || current_schema())
$$;

-- A restart of the server frees every advisory lock at once, while the drivers live and come back. Until one lease time
-- has passed, an absent lock says nothing.
create function onward_server_is_young(lease_seconds double precision) returns boolean language sql stable as $$
    select onward_now() < onward_later(pg_postmaster_start_time(), lease_seconds)
$$;

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

-- The fence. A checkpoint write of a managed run must come from a connection whose start-up option onward.fence is
-- '<run_id>:<epoch>' of the lease row. FOR KEY SHARE on a row whose key holds the epoch lets heartbeats pass, makes a
-- take-over wait for writes in progress, and shows the new epoch to every write after it. It fails closed.
create function hold_fence() returns trigger language plpgsql set search_path from current as $$
declare
    current_epoch bigint;
    mine text := nullif(current_setting('onward.fence', true), '');
begin
    select epoch into current_epoch from leases where run_id = new.thread_id for key share;
    if current_epoch is null and mine is null then
        return new;                           -- not ours: a thread that no run owns
    end if;
    if mine is distinct from new.thread_id || ':' || current_epoch then
        raise exception 'stale epoch: this connection holds %, the run is at %:%', mine, new.thread_id, current_epoch
            using errcode = 'OW001';          -- our own, so that no retry policy takes it for a transient error
    end if;
    return new;
end $$;
