-- Version 2: take-overs that are counted, rights and budgets, answers to graphs that are not ours.

alter table runs add column takeovers        integer not null default 0 check (takeovers >= 0);
alter table runs add column budget_tokens    integer check (budget_tokens >= 0);
alter table runs add column allowed_kinds    text;
create index runs_queued on runs (run_id) where status = 'queued';
create index runs_driven on runs (run_id) where status in ('running', 'cancel_requested');
create index runs_parent on runs (parent) where parent is not null;
alter table leases add column missed_at  text;
create index leases_holder on leases (holder_id) where holder_id is not null;

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

drop view claimable;
create view claimable as
select r.run_id, r.workflow_version, r.status, l.epoch, l.holder_id,
       case when r.status = 'queued' then 'queued' when l.holder_id is null then 'released'
            when l.expires_at <= onward_now() then 'expired' else 'gone' end as why
from runs r left join leases l using (run_id)
where (r.status = 'queued' and (r.wake_at is null or r.wake_at <= onward_now()))
   or (r.status in ('running', 'cancel_requested')
       and (l.run_id is null or l.expires_at <= onward_now()  -- a lease that nobody holds may be put off
            or (l.holder_id is not null and not onward_holder_alive(l.holder_id))));
