-- Version 2: an identity, doubt, the outbox, background look-ups, second approvers, revocation, removal by age.

drop view actions_seen;
drop view decisions_seen;
alter table actions add column in_doubt       integer not null default 0 check (in_doubt in (0, 1));
alter table decisions add column seconded_by          text;
alter table decisions add column seconded_at          text;
alter table decisions add column revoked_by           text;
alter table decisions add column revoked_reason       text;
alter table decisions add column approvers            integer not null default 1 check (approvers in (1, 2));
alter table grants add column revoked_at          text;
alter table fences add column pruned_at      text;

create index fences_closed on fences (closed_at) where closed_at is not null and pruned_at is null;
create index actions_by_approval on actions (approval_id) where approval_id is not null;
create index decisions_of_action on decisions (action_id);
create index decisions_of_successor on decisions (successor_action_id) where successor_action_id is not null;
create index decisions_of_grant on decisions (grant_id) where grant_id is not null;
create index feed_of_action on feed (action_id);
create index feed_of_decision on feed (decision_id) where decision_id is not null;

-- Without the foreign key: SQLite cannot take one away.
drop index publications_by_resource;
alter table publications rename to publications_1;
create table publications (
    publication_id  integer primary key,
    action_id       text not null unique,  -- no foreign key: it outlives its record, which is removed by age
    run_id          text not null,
    resource        text not null,
    title           text not null,
    note            text not null,
    digest          text not null,
    objects         text not null,
    published_at    text not null
) strict;
insert into publications
    select publication_id, action_id, run_id, resource, title, note, digest, objects, published_at from publications_1;
drop table publications_1;
create index publications_by_resource on publications (resource, publication_id);

create table ledger (
    only_row             integer primary key default 1 check (only_row = 1),
    ledger_id            text not null,
    made_at              text not null,
    pruning              integer not null default 0 check (pruning in (0, 1)),
    held_at              text,
    held_reason          text,
    released_at          text,
    released_by          text,
    released_reason      text,
    look_first_until_at  text,
    check ((held_at is null) = (held_reason is null)),
    check ((released_at is null) = (released_by is null))
) strict;

create table outbox (
    action_id    text primary key references actions,
    kind         text not null,
    resource     text not null,
    in_order     integer not null check (in_order in (0, 1)),
    stored_at    text not null,
    dispatch_at  text not null,
    attempts     integer not null default 0 check (attempts >= 0),
    dead_at      text,
    dead_reason  text,
    check ((dead_at is null) = (dead_reason is null))
) strict;
create index outbox_due on outbox (dispatch_at) where dead_at is null;
create index outbox_lines on outbox (kind, resource, stored_at, action_id) where in_order;

create trigger actions_leave_outbox after update on actions
when new.status in ('SUCCEEDED', 'FAILED', 'WITHDRAWN') and old.status <> new.status
     and exists (select 1 from outbox where action_id = new.action_id)
begin
    update feed_head set last_seq = last_seq + 1 where old.status <> 'UNKNOWN';
    insert into feed (seq, what, run_id, action_id, status, happened_at)
        select last_seq, 'resolution', new.run_id, new.action_id, new.status, new.updated_at
        from feed_head where old.status <> 'UNKNOWN';
    delete from outbox where action_id = new.action_id;
end;

create table look_ups (
    action_id  text primary key references actions,
    count      integer not null check (count >= 0),
    again_at   text,
    answer     text not null
) strict;
create index look_ups_due on look_ups (again_at);

drop trigger action_events_keep_delete;
create trigger action_events_keep_delete before delete on action_events
when not coalesce((select pruning from ledger), 0)
begin
    select raise(abort, 'action_events is append-only');
end;

create view decisions_seen as
    select decision_id, action_id, superseded_at,
           json_object('decision_id', decision_id, 'action_id', action_id, 'decision', decision,
                       'principal', principal, 'principal_asserted', principal_asserted,
                       'request_hash', request_hash, 'resource', resource, 'scope', scope, 'reason', reason,
                       'expires_at', expires_at, 'decided_at', decided_at, 'consumed_at', consumed_at,
                       'grant_id', grant_id, 'successor_action_id', successor_action_id,
                       'seconded_by', seconded_by, 'seconded_at', seconded_at, 'approvers', approvers) as standing
    from decisions;

create view actions_seen as
    select a.*, d.standing
    from actions a
    left join decisions_seen d on d.action_id = a.action_id and d.superseded_at is null;
