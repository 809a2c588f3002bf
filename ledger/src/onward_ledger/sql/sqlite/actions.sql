-- name: clock
-- The database's time. A write transaction holds the file, so nothing is waited for behind this.
select onward_now() as now_at

-- name: glance
-- All that a call needs to know to begin with, on one snapshot and without a lock; one row also where nothing is
-- recorded yet. Final records never change, so this is enough for a replay. `remembered`: the last claim that this
-- process saw committed is there. If not, `forgotten` knows whether that is a loss.
select a.*, f.epoch as fence_epoch, f.closed_at as fence_closed_at, l.held_reason,
       coalesce(l.look_first_until_at > onward_now(), 0) as looks_first,
       exists (select 1 from grants g where g.run_id = :run_id and g.kind = :kind) as has_grants,
       :seen_seq is null
       or exists (select 1 from action_events e
                  where e.action_id = :seen_action_id and e.seq = :seen_seq and e.hash = :seen_hash)
       as remembered,
       onward_now() as now_at
from (select 1) as one
     left join ledger l on l.only_row = 1
     left join fences f on f.run_id = :run_id
     left join actions_seen a on a.action_id = :action_id

-- name: look_at_action
-- Enough for a replay, since final records never change.
select * from actions_seen where action_id = :action_id

-- name: lock_action
select * from actions where action_id = :action_id

-- name: insert_action
-- Nothing is inserted when the id is taken, when another revision of the step and slot is live, when the run is closed
-- or was announced under an epoch beyond `newest_epoch`, or when it comes claimed while the ledger is held. An
-- announcement and a closing wait until this transaction has ended. What the ledger derived itself (a compensation) is
-- inserted for a closed run, too, while its records are there.
insert into actions (action_id, run_id, step, slot, rev, kind, resource, params, request_hash, status, epoch, claims,
                     claim_token, instance, deadline_at, first_sent_at, version, events, head, created_at, updated_at)
select :action_id, f.run_id, :step, :slot, :rev, :kind, :resource, :params, :request_hash,
       :status, :epoch, :claims, :claim_token, :instance, :deadline_at,
       :first_sent_at, :version, :events, :head, :now_at, :now_at
from (select run_id from fences
      where run_id = :run_id and epoch <= :newest_epoch
        and (closed_at is null or :derived and pruned_at is null)) as f
where (:claims = 0 or not exists (select 1 from ledger where held_at is not null))
on conflict do nothing

-- name: update_action
-- Compare-and-set: a record that has moved since it was read is not touched.
update actions
set status = :status, provider_id = :provider_id, receipt = :receipt, reason = :reason,
    alarm = :alarm, epoch = :epoch, claims = :claims, claim_token = :claim_token,
    instance = :instance, deadline_at = :deadline_at, first_sent_at = :first_sent_at,
    not_before_at = :not_before_at, approval_id = :approval_id, in_doubt = :in_doubt,
    events = :events, head = :head, version = version + 1, updated_at = :now_at
where action_id = :action_id and version = :version

-- name: insert_event
-- Behind insert_action or update_action in the same transaction. Where that has not written the head that this event
-- makes, `seq` is null, which its column refuses: a compare-and-set that failed cannot commit, nor an event without it.
insert into action_events (action_id, seq, word, from_status, to_status, epoch, principal, instance, claim_token,
                           reason, detail, recorded_at, previous_hash, hash)
values (:action_id,
        (select a.events from actions a
         where a.action_id = :action_id and a.events = :seq and a.head = :hash),
        :word, :from_status, :to_status, :epoch, :principal, :instance,
        :claim_token, :reason, :detail, :recorded_at, :previous_hash, :hash)

-- name: insert_event_if_written
-- The same in one message with the write that it belongs to, where nobody reads an answer in between: without that write
-- (its `events` and `head`) nothing is inserted.
insert into action_events (action_id, seq, word, from_status, to_status, epoch, principal, instance, claim_token,
                           reason, detail, recorded_at, previous_hash, hash)
select a.action_id, :seq, :word, :from_status, :to_status, :epoch, :principal, :instance,
       :claim_token, :reason, :detail, :recorded_at, :previous_hash, :hash
from actions a
where a.action_id = :action_id and a.events = :written_events and a.head = :written_head

-- name: events_of_action
select * from action_events where action_id = :action_id order by seq

-- name: last_event
select * from action_events where action_id = :action_id order by seq desc limit 1

-- name: claim_event
-- The claim that a token belongs to, also when a later claim has replaced it.
select * from action_events where action_id = :action_id and word = 'claim' and claim_token = :claim_token

-- name: live_revision
select * from actions_seen
where run_id = :run_id and step = :step and slot = :slot and status <> 'WITHDRAWN'

-- name: actions_of_run
select * from actions_seen where run_id = :run_id order by created_at, action_id

-- name: list_actions
select * from actions_seen
where (:run_id is null or run_id = :run_id)
  and (:step is null or step = :step)
  and (:slot is null or slot = :slot)
  and (:status is null or status = :status)
  and (:after is null
       or (created_at, action_id) > (select created_at, action_id from actions where action_id = :after))
order by created_at, action_id
limit :limit

-- name: prepared_of_run
select * from actions where run_id = :run_id and status = 'PREPARED' order by action_id

-- name: undecided_of_run
-- Live actions that a grant may decide.
select action_id from actions_seen
where run_id = :run_id and kind = :kind and status = 'PREPARED' and standing is null
order by action_id
