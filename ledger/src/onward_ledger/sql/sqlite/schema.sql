-- The ledger's schema, version 2. A new database is made from this file alone. onward_now() is registered by the
-- adapter on every connection; instants are UTC text with microseconds.

-- One row per start of a service process. Only the holder of the lock file beside the database runs.
create table instances (
    instance    text primary key,
    version     text not null,
    host        text not null,
    pid         integer not null,
    started_at  text not null,
    stopped_at  text
) strict;

-- The newest announced epoch of each run.
create table fences (
    run_id         text primary key,
    epoch          integer not null check (epoch >= 0),
    holder         text,
    announced_at   text not null,
    closed_at      text,
    closed_by      text,
    closed_reason  text,
    pruned_at      text,  -- its records were removed by age; it stays closed for ever
    check ((closed_at is null) = (closed_reason is null))
) strict;
create index fences_closed on fences (closed_at) where closed_at is not null and pruned_at is null;

-- The state machine, in reading order; the transitions stand in action.py.
--   PREPARED -> IN_FLIGHT -> SUCCEEDED | FAILED | UNKNOWN | PREPARED     UNKNOWN -> SUCCEEDED | FAILED | PREPARED
--   PREPARED -> WITHDRAWN                                                PREPARED -> SUCCEEDED | FAILED (transactional)
create table actions (
    action_id      text primary key,
    run_id         text not null references fences,
    step           text not null,
    slot           text not null,
    rev            integer not null check (rev >= 1),
    kind           text not null,
    resource       text not null,
    params         text not null,
    request_hash   text not null check (length(request_hash) = 64 and request_hash not glob '*[^0-9a-f]*'),
    status         text not null
                   check (status in ('PREPARED', 'IN_FLIGHT', 'SUCCEEDED', 'FAILED', 'UNKNOWN', 'WITHDRAWN')),
    provider_id    text,
    receipt        text,
    reason         text,
    alarm          text,
    epoch          integer not null,
    claims         integer not null default 0 check (claims >= 0),
    claim_token    text,
    instance       text references instances,
    deadline_at    text,
    first_sent_at  text,
    not_before_at  text,
    approval_id    integer references decisions,
    version        integer not null default 1 check (version >= 1),
    events         integer not null check (events >= 1),  -- length and head of the chain in action_events
    head           text not null,
    created_at     text not null,
    updated_at     text not null,
    in_doubt       integer not null default 0 check (in_doubt in (0, 1)),  -- PREPARED again although an earlier send may have had its effect
    unique (run_id, step, slot, rev),
    check ((status = 'SUCCEEDED') = (receipt is not null)),
    check (status not in ('IN_FLIGHT', 'UNKNOWN')
           or (claims > 0 and claim_token is not null and instance is not null and deadline_at is not null))
) strict;

-- At most one revision of a step and slot is live.
create unique index actions_live on actions (run_id, step, slot) where status <> 'WITHDRAWN';
create index actions_by_time on actions (created_at, action_id);
create index actions_unsettled on actions (instance) where status in ('IN_FLIGHT', 'UNKNOWN');
create index actions_by_approval on actions (approval_id) where approval_id is not null;

-- What an action intends never changes, and what is final stays.
create trigger actions_keep_intent before update on actions
when (new.action_id, new.run_id, new.step, new.slot, new.rev, new.kind, new.resource, new.request_hash, new.params)
     is not
     (old.action_id, old.run_id, old.step, old.slot, old.rev, old.kind, old.resource, old.request_hash, old.params)
begin
    select raise(abort, 'the intent of an action never changes');
end;
create trigger actions_keep_final before update on actions
when old.status in ('SUCCEEDED', 'FAILED', 'WITHDRAWN') and new.status <> old.status
begin
    select raise(abort, 'the action is in a final state');
end;

-- Every transition and note, append-only, each line holding the hash of the line before.
create table action_events (
    action_id      text not null references actions,
    seq            integer not null check (seq >= 1),
    word           text not null,
    from_status    text,
    to_status      text not null,
    epoch          integer,
    principal      text,
    instance       text,
    claim_token    text,
    reason         text,
    detail         text,
    recorded_at    text not null,
    previous_hash  text not null,
    hash           text not null check (length(hash) = 64 and hash not glob '*[^0-9a-f]*'),
    primary key (action_id, seq)
) strict;

create trigger action_events_keep_update before update on action_events
begin
    select raise(abort, 'action_events is append-only');
end;
create trigger action_events_keep_delete before delete on action_events
when not coalesce((select pruning from ledger), 0)
begin
    select raise(abort, 'action_events is append-only');
end;

-- Standing permissions, given before the action is known.
create table grants (
    grant_id            text primary key,
    run_id              text not null,
    kind                text not null,
    resource            text,
    principal           text not null,
    principal_asserted  integer not null check (principal_asserted in (0, 1)),
    uses                integer not null check (uses >= 1),
    used                integer not null default 0 check (used >= 0),
    expires_at          text not null,
    granted_at          text not null,
    revoked_at          text
) strict;
create index grants_of_run on grants (run_id, kind);

-- People's decisions. The first one stands; only an approval that expired unused can be followed by another.
create table decisions (
    decision_id          integer primary key,
    action_id            text not null references actions,
    decision             text not null check (decision in ('approve', 'edit', 'revise', 'reject')),
    principal            text not null,
    principal_asserted   integer not null check (principal_asserted in (0, 1)),
    request_hash         text not null,
    resource             text not null,
    scope                text not null,
    reason               text,
    expires_at           text,
    decided_at           text not null,
    consumed_at          text,
    superseded_at        text,
    grant_id             text references grants,
    successor_action_id  text references actions,
    seconded_by          text,  -- the second approver, where the kind asks for two
    seconded_at          text,
    revoked_by           text,  -- an approval that was taken back before it was used; it is superseded too
    revoked_reason       text,
    approvers            integer not null default 1 check (approvers in (1, 2)),
    check ((decision = 'edit') = (successor_action_id is not null)),
    check (consumed_at is null or decision = 'approve'),
    check (consumed_at is null or superseded_at is null)
) strict;
create unique index decisions_standing on decisions (action_id) where superseded_at is null;
-- Foreign keys lead here too: a removal by age looks for what refers to each row.
create index decisions_of_action on decisions (action_id);
create index decisions_of_successor on decisions (successor_action_id) where successor_action_id is not null;
create index decisions_of_grant on decisions (grant_id) where grant_id is not null;

-- What was decided or settled, in the order of the commits: the number comes from the one row of feed_head.
create table feed_head (
    only_row  integer primary key default 1 check (only_row = 1),
    last_seq  integer not null
) strict;
insert into feed_head (last_seq) values (0);

create table feed (
    seq          integer primary key,
    what         text not null check (what in ('decision', 'resolution')),
    run_id       text not null,
    action_id    text not null references actions,
    decision_id  integer references decisions,
    status       text,
    happened_at  text not null,
    check ((what = 'decision') = (decision_id is not null)),
    check ((what = 'resolution') = (status is not null))
) strict;
create index feed_of_action on feed (action_id);
create index feed_of_decision on feed (decision_id) where decision_id is not null;

-- What the kind report.publish makes: the effect itself, in the same commit as its receipt.
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
create index publications_by_resource on publications (resource, publication_id);

-- Which ledger this is, for as long as its records live, and whether it may send. A database that was restored from an
-- older backup has forgotten sends: while `held_at` is set nothing is claimed. An operator releases it; until
-- `look_first_until_at` a first send is preceded by a look-up where the kind has one. `pruning` is true only inside a
-- transaction that removes what is too old.
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

-- Actions that the service performs by itself (mode async), while they are not settled. In order: nothing behind an
-- earlier row of the same kind and resource is sent before that one is settled. A row with `dead_at` waits for a person.
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

-- What is settled leaves the outbox, and the feed says so: whoever waits for it follows the feed. (What leaves UNKNOWN
-- the feed tells anyway.)
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

-- How often an UNKNOWN action was looked up in the background, and when next. Null: no more; a person settles it.
create table look_ups (
    action_id  text primary key references actions,
    count      integer not null check (count >= 0),
    again_at   text,
    answer     text not null
) strict;
create index look_ups_due on look_ups (again_at);

-- A decision as one JSON value.
create view decisions_seen as
    select decision_id, action_id, superseded_at,
           json_object('decision_id', decision_id, 'action_id', action_id, 'decision', decision,
                       'principal', principal, 'principal_asserted', principal_asserted,
                       'request_hash', request_hash, 'resource', resource, 'scope', scope, 'reason', reason,
                       'expires_at', expires_at, 'decided_at', decided_at, 'consumed_at', consumed_at,
                       'grant_id', grant_id, 'successor_action_id', successor_action_id,
                       'seconded_by', seconded_by, 'seconded_at', seconded_at, 'approvers', approvers) as standing
    from decisions;

-- An action with the decision that stands for it, as answers show it.
create view actions_seen as
    select a.*, d.standing
    from actions a
    left join decisions_seen d on d.action_id = a.action_id and d.superseded_at is null;
