-- The ledger's schema, version 2. A new database is made from this file alone.

-- The one clock: leases, deadlines and expiry are decided by it, and a test can set it for its connections.
create function onward_now() returns timestamptz language sql volatile as $$
    select coalesce(nullif(current_setting('onward.now', true), '')::timestamptz, clock_timestamp())
$$;

-- One row per start of a service process. Its session holds the advisory lock `lock_key` while it lives, so that
-- pg_locks tells which instances are gone without asking them.
create table instances (
    instance    uuid primary key,
    lock_key    bigint not null unique,
    version     text not null,
    host        text not null,
    pid         integer not null,
    started_at  timestamptz not null,
    stopped_at  timestamptz
);

-- The newest announced epoch of each run. Every claim reads its row FOR SHARE, so that an announcement waits for claims
-- under way and no claim of an older epoch comes behind it.
create table fences (
    run_id         uuid primary key,
    epoch          bigint not null check (epoch >= 0),
    holder         text,
    announced_at   timestamptz not null,
    closed_at      timestamptz,
    closed_by      text,
    closed_reason  text,
    pruned_at      timestamptz,  -- its records were removed by age; it stays closed for ever
    check ((closed_at is null) = (closed_reason is null))
);
create index fences_closed on fences (closed_at) where closed_at is not null and pruned_at is null;

-- The state machine, in reading order; the transitions stand in action.py.
--   PREPARED -> IN_FLIGHT -> SUCCEEDED | FAILED | UNKNOWN | PREPARED     UNKNOWN -> SUCCEEDED | FAILED | PREPARED
--   PREPARED -> WITHDRAWN                                                PREPARED -> SUCCEEDED | FAILED (transactional)
create type action_status as enum ('PREPARED', 'IN_FLIGHT', 'SUCCEEDED', 'FAILED', 'UNKNOWN', 'WITHDRAWN');

create table actions (
    action_id      uuid primary key,
    run_id         uuid not null references fences,
    step           text not null,
    slot           text not null,
    rev            integer not null check (rev >= 1),
    kind           text not null,
    resource       text not null,
    params         json not null,  -- json keeps the canonical text; jsonb would rewrite numbers
    request_hash   text not null check (request_hash ~ '^[0-9a-f]{64}$'),
    status         action_status not null,
    provider_id    text,
    receipt        json,
    reason         text,
    alarm          text,
    epoch          bigint not null,
    claims         integer not null default 0 check (claims >= 0),
    claim_token    uuid,
    instance       uuid references instances,
    deadline_at    timestamptz,
    first_sent_at  timestamptz,
    not_before_at  timestamptz,
    approval_id    bigint,
    version        integer not null default 1 check (version >= 1),
    events         integer not null check (events >= 1),  -- length and head of the chain in action_events
    head           text not null,
    created_at     timestamptz not null,
    updated_at     timestamptz not null,
    in_doubt       boolean not null default false,  -- PREPARED again although an earlier send may have had its effect
    unique (run_id, step, slot, rev),
    check ((status = 'SUCCEEDED') = (receipt is not null)),
    check (status not in ('IN_FLIGHT', 'UNKNOWN')
           or (claims > 0 and claim_token is not null and instance is not null and deadline_at is not null))
);

-- At most one revision of a step and slot is live.
create unique index actions_live on actions (run_id, step, slot) where status <> 'WITHDRAWN';
create index actions_by_time on actions (created_at, action_id);
create index actions_unsettled on actions (instance) where status in ('IN_FLIGHT', 'UNKNOWN');
create index actions_by_approval on actions (approval_id) where approval_id is not null;

-- What an action intends never changes, and what is final stays.
create function actions_keep() returns trigger language plpgsql as $$
begin
    if (new.action_id, new.run_id, new.step, new.slot, new.rev, new.kind, new.resource, new.request_hash)
       is distinct from
       (old.action_id, old.run_id, old.step, old.slot, old.rev, old.kind, old.resource, old.request_hash)
       or new.params::text <> old.params::text then
        raise exception 'the intent of action % never changes', old.action_id;
    end if;
    if old.status in ('SUCCEEDED', 'FAILED', 'WITHDRAWN') and new.status <> old.status then
        raise exception 'action % is %, which is final', old.action_id, old.status;
    end if;
    return new;
end $$;
create trigger actions_keep before update on actions for each row execute function actions_keep();

-- Every transition and note, append-only, each line holding the hash of the line before.
create table action_events (
    action_id      uuid not null references actions,
    seq            integer not null check (seq >= 1),
    word           text not null,
    from_status    action_status,
    to_status      action_status not null,
    epoch          bigint,
    principal      text,
    instance       uuid,
    claim_token    uuid,
    reason         text,
    detail         json,
    recorded_at    timestamptz not null,
    previous_hash  text not null,
    hash           text not null check (hash ~ '^[0-9a-f]{64}$'),
    primary key (action_id, seq)
);

create function action_events_keep() returns trigger language plpgsql as $$
begin
    if tg_op = 'DELETE' and (select pruning from ledger) then
        return old;
    end if;
    raise exception 'action_events is append-only';
end $$;
create trigger action_events_keep before update or delete on action_events
    for each row execute function action_events_keep();
create trigger action_events_keep_all before truncate on action_events
    for each statement execute function action_events_keep();

-- Standing permissions, given before the action is known.
create table grants (
    grant_id            uuid primary key,
    run_id              uuid not null,
    kind                text not null,
    resource            text,
    principal           text not null,
    principal_asserted  boolean not null,
    uses                integer not null check (uses >= 1),
    used                integer not null default 0 check (used >= 0),
    expires_at          timestamptz not null,
    granted_at          timestamptz not null,
    revoked_at          timestamptz
);
create index grants_of_run on grants (run_id, kind);

-- People's decisions. The first one stands; only an approval that expired unused can be followed by another.
create type decision_word as enum ('approve', 'edit', 'revise', 'reject');

create table decisions (
    decision_id          bigint primary key,
    action_id            uuid not null references actions,
    decision             decision_word not null,
    principal            text not null,
    principal_asserted   boolean not null,
    request_hash         text not null,
    resource             text not null,
    scope                text not null,
    reason               text,
    expires_at           timestamptz,
    decided_at           timestamptz not null,
    consumed_at          timestamptz,
    superseded_at        timestamptz,
    grant_id             uuid references grants,
    successor_action_id  uuid references actions,
    seconded_by          text,  -- the second approver, where the kind asks for two
    seconded_at          timestamptz,
    revoked_by           text,  -- an approval that was taken back before it was used; it is superseded too
    revoked_reason       text,
    approvers            integer not null default 1 check (approvers in (1, 2)),
    check ((decision = 'edit') = (successor_action_id is not null)),
    check (consumed_at is null or decision = 'approve'),
    check (consumed_at is null or superseded_at is null)
);
create unique index decisions_standing on decisions (action_id) where superseded_at is null;
-- Foreign keys lead here too: a removal by age looks for what refers to each row.
create index decisions_of_action on decisions (action_id);
create index decisions_of_successor on decisions (successor_action_id) where successor_action_id is not null;
create index decisions_of_grant on decisions (grant_id) where grant_id is not null;
alter table actions add foreign key (approval_id) references decisions;

-- What was decided or settled, in the order of the commits: the number comes from the one row of feed_head, which is
-- locked until the commit. A sequence would hand out 8 before 7 commits, and a follower at 8 would never see 7.
create table feed_head (
    only_row  boolean primary key default true check (only_row),
    last_seq  bigint not null
);
insert into feed_head (last_seq) values (0);

create table feed (
    seq          bigint primary key,
    what         text not null check (what in ('decision', 'resolution')),
    run_id       uuid not null,
    action_id    uuid not null references actions,
    decision_id  bigint references decisions,
    status       action_status,
    happened_at  timestamptz not null,
    check ((what = 'decision') = (decision_id is not null)),
    check ((what = 'resolution') = (status is not null))
);
create index feed_of_action on feed (action_id);
create index feed_of_decision on feed (decision_id) where decision_id is not null;

-- What the kind report.publish makes: the effect itself, in the same commit as its receipt.
create table publications (
    publication_id  bigint generated always as identity primary key,
    action_id       uuid not null unique,  -- no foreign key: it outlives its record, which is removed by age
    run_id          uuid not null,
    resource        text not null,
    title           text not null,
    note            text not null,
    digest          text not null,
    objects         json not null,
    published_at    timestamptz not null
);
create index publications_by_resource on publications (resource, publication_id);

-- Which ledger this is, for as long as its records live, and whether it may send. A database that was restored from an
-- older backup has forgotten sends: while `held_at` is set nothing is claimed. An operator releases it; until
-- `look_first_until_at` a first send is preceded by a look-up where the kind has one. `pruning` is true only inside a
-- transaction that removes what is too old.
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

-- Actions that the service performs by itself (mode async), while they are not settled. In order: nothing behind an
-- earlier row of the same kind and resource is sent before that one is settled. A row with `dead_at` waits for a person.
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

-- What is settled leaves the outbox, and the feed says so: whoever waits for it follows the feed. (What leaves UNKNOWN
-- the feed tells anyway.)
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

-- How often an UNKNOWN action was looked up in the background, and when next. Null: no more; a person settles it.
create table look_ups (
    action_id  uuid primary key references actions,
    count      integer not null check (count >= 0),
    again_at   timestamptz,
    answer     text not null
);
create index look_ups_due on look_ups (again_at);

-- An action with the decision that stands for it, as answers show it.
create view actions_seen as
    select a.*, case when d.decision_id is not null then to_json(d) end as standing
    from actions a
    left join decisions d on d.action_id = a.action_id and d.superseded_at is null;
