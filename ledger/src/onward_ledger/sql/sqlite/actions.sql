-- name: clock
-- The database's time. A write transaction holds the file, so nothing is waited for behind this.
select onward_now() as now_at

-- name: look_at_action
-- Enough for a replay, since final records never change.
select a.*, f.epoch as fence_epoch, onward_now() as now_at
from actions_seen a join fences f using (run_id)
where a.action_id = :action_id

-- name: lock_action
select * from actions where action_id = :action_id

-- name: insert_action
-- Nothing is inserted when the id is taken, or when another revision of the step and slot is live.
insert into actions (action_id, run_id, step, slot, rev, kind, resource, params, request_hash, status, epoch,
                     events, head, created_at, updated_at)
values (:action_id, :run_id, :step, :slot, :rev, :kind, :resource, :params, :request_hash,
        :status, :epoch, :events, :head, :now_at, :now_at)
on conflict do nothing
returning *

-- name: update_action
-- Compare-and-set: a record that has moved since it was read is not touched.
update actions
set status = :status, provider_id = :provider_id, receipt = :receipt, reason = :reason,
    alarm = :alarm, epoch = :epoch, claims = :claims, claim_token = :claim_token,
    instance = :instance, deadline_at = :deadline_at, first_sent_at = :first_sent_at,
    not_before_at = :not_before_at, approval_id = :approval_id,
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
