-- Runs: who executes, and when, on one machine without Postgres. The same tables, rules and names as its sibling.
-- Functions that every connection registers: onward_now(), onward_later(instant, seconds), onward_holder_alive(id).
-- Instants are text in UTC with microseconds, so that text order is time order.

create table runs (
    run_id           text primary key check (length(run_id) = 36),
    kind             text not null,
    -- queued            a driver may claim it ──▶ running, cancel_requested
    -- running           driven (again at a take-over) ──▶ succeeded, failed, waiting_human, queued, cancel_requested
    -- waiting_human     a person has to decide; no driver ──▶ queued (decided), cancel_requested
    -- cancel_requested  somebody asked; not stopped yet (again at a take-over) ──▶ cancelled, succeeded, failed (too late)
    -- succeeded, failed, cancelled: the end
    status           text not null default 'queued' check (status in
        ('queued', 'running', 'waiting_human', 'cancel_requested', 'succeeded', 'failed', 'cancelled')),
    reason           text,
    message          text,
    version          integer not null default 1 check (version > 0),
    owner            text not null check (owner <> ''),
    tenant           text not null check (tenant <> ''),
    workflow_version text not null check (workflow_version <> ''),
    input_name       text not null,
    input_key        text not null,
    input_digest     text not null check (length(input_digest) = 64),
    input_size       integer not null check (input_size >= 0),
    asks             text not null default '[]',
    model            text,
    params           text not null default '{}',
    deadline_at      text,
    budget_micros    integer check (budget_micros >= 0),
    spent_micros     integer not null default 0 check (spent_micros >= 0),
    input_tokens     integer not null default 0,
    output_tokens    integer not null default 0,
    failures         integer not null default 0 check (failures >= 0),
    wake_at          text,
    parent           text references runs,
    store            text not null,
    objects          text not null,
    ledger           text not null,
    last_seq         integer not null default 0,
    created_at       text not null,
    updated_at       text not null,
    finished_at      text,
    takeovers        integer not null default 0 check (takeovers >= 0),
    budget_tokens    integer check (budget_tokens >= 0),
    allowed_kinds    text,
    check ((status in ('succeeded', 'failed', 'cancelled')) = (finished_at is not null)),
    check (status not in ('failed', 'waiting_human') or reason is not null),
    check (wake_at is null or status = 'queued')
) strict;
create index runs_unfinished on runs (status, wake_at) where finished_at is null;
create index runs_newest on runs (created_at desc);
create index runs_queued on runs (run_id) where status = 'queued';
create index runs_driven on runs (run_id) where status in ('running', 'cancel_requested');
create index runs_parent on runs (parent) where parent is not null;

create table events (
    run_id     text not null references runs,
    seq        integer not null check (seq > 0),
    epoch      integer,
    kind       text not null,
    step       text,
    data       text not null default '{}',
    created_at text not null,
    primary key (run_id, seq)
) strict;
create index events_of_step on events (run_id, step, kind) where step is not null;

-- One row per driving process. While it lives it holds the lock file of its id.
create table holders (
    holder_id         integer primary key autoincrement,
    kind              text not null,
    host              text not null,
    pid               integer not null,
    process_started   real not null,
    started_at        text not null
) strict;

create table leases (
    run_id     text primary key references runs,
    epoch      integer not null check (epoch > 0),
    holder_id  integer references holders,
    seconds    real not null check (seconds > 0),
    expires_at text not null,
    missed_at  text,
    unique (run_id, epoch)
) strict;
create index leases_holder on leases (holder_id) where holder_id is not null;

-- Workers need Postgres; the table is here so that both engines answer the same questions.
create table workers (
    holder_id   integer primary key references holders,
    versions    text not null,
    concurrency integer not null check (concurrency > 0),
    seen_at     text not null
) strict;

create table answers (
    run_id       text not null references runs,
    interrupt_id text not null,
    value        text not null,
    principal    text not null,
    created_at   text not null,
    primary key (run_id, interrupt_id)
) strict;

create table cursors (
    name     text primary key,
    position integer not null
) strict;

create table barred (
    tenant     text not null,
    principal  text not null,
    reason     text not null,
    barred_by  text not null,
    created_at text not null,
    primary key (tenant, principal)
) strict;

create view claimable as
select r.run_id, r.workflow_version, r.status, l.epoch, l.holder_id,
       case when r.status = 'queued' then 'queued' when l.holder_id is null then 'released'
            when l.expires_at <= onward_now() then 'expired' else 'gone' end as why
from runs r left join leases l using (run_id)
where (r.status = 'queued' and (r.wake_at is null or r.wake_at <= onward_now()))
   or (r.status in ('running', 'cancel_requested')
       and (l.run_id is null or l.expires_at <= onward_now()  -- a lease that nobody holds may be put off
            or (l.holder_id is not null and not onward_holder_alive(l.holder_id))));
