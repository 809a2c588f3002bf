-- Version 2: an identity, doubt, the outbox, background look-ups, second approvers, revocation, removal by age.

drop view actions_seen;
alter table actions add column in_doubt       boolean not null default false;
alter table decisions add column seconded_by          text;
alter table decisions add column seconded_at          timestamptz;
alter table decisions add column revoked_by           text;
alter table decisions add column revoked_reason       text;
alter table decisions add column approvers            integer not null default 1 check (approvers in (1, 2));
alter table grants add column revoked_at          timestamptz;
alter table fences add column pruned_at      timestamptz;

create index fences_closed on fences (closed_at) where closed_at is not null and pruned_at is null;
create index actions_by_approval on actions (approval_id) where approval_id is not null;
create index decisions_of_action on decisions (action_id);
create index decisions_of_successor on decisions (successor_action_id) where successor_action_id is not null;
create index decisions_of_grant on decisions (grant_id) where grant_id is not null;
create index feed_of_action on feed (action_id);
create index feed_of_decision on feed (decision_id) where decision_id is not null;

alter table publications drop constraint publications_action_id_fkey;

create table ledger (
    only_row             boolean primary key default true check (only_row),
    ledger_id            uuid not null,
    made_at              timestamptz not null,
    pruning              boolean not null default false,
    held_at              timestamptz,
    held_reason          text,
    released_at          timestamptz,
    released_by          text,
    released_reason      text,
    look_first_until_at  timestamptz,
    check ((held_at is null) = (held_reason is null)),
    check ((released_at is null) = (released_by is null))
);

create table outbox (
    action_id    uuid primary key references actions,
    kind         text not null,
    resource     text not null,
    in_order     boolean not null,
    stored_at    timestamptz not null,
    dispatch_at  timestamptz not null,
    attempts     integer not null default 0 check (attempts >= 0),
    dead_at      timestamptz,
    dead_reason  text,
    check ((dead_at is null) = (dead_reason is null))
);
create index outbox_due on outbox (dispatch_at) where dead_at is null;
create index outbox_lines on outbox (kind, resource, stored_at, action_id) where in_order;

create function actions_leave_outbox() returns trigger language plpgsql as $$
begin
    delete from outbox where action_id = new.action_id;
    if found and old.status <> 'UNKNOWN' then
        update feed_head set last_seq = last_seq + 1;
        insert into feed (seq, what, run_id, action_id, status, happened_at)
        select last_seq, 'resolution', new.run_id, new.action_id, new.status, new.updated_at from feed_head;
    end if;
    return null;
end $$;
create trigger actions_leave_outbox after update on actions for each row
    when (new.status in ('SUCCEEDED', 'FAILED', 'WITHDRAWN') and old.status <> new.status)
    execute function actions_leave_outbox();

create table look_ups (
    action_id  uuid primary key references actions,
    count      integer not null check (count >= 0),
    again_at   timestamptz,
    answer     text not null
);
create index look_ups_due on look_ups (again_at);

create or replace function action_events_keep() returns trigger language plpgsql as $$
begin
    if tg_op = 'DELETE' and (select pruning from ledger) then
        return old;
    end if;
    raise exception 'action_events is append-only';
end $$;

create view actions_seen as
    select a.*, case when d.decision_id is not null then to_json(d) end as standing
    from actions a
    left join decisions d on d.action_id = a.action_id and d.superseded_at is null;
