-- name: clock
-- The database's time, read behind the locks that were waited for.
select onward_now() as now_at

-- name: look_at_action
-- A plain read, without a lock: enough for a replay, since final records never change.
select a.*, f.epoch as fence_epoch, onward_now() as now_at
from actions_seen a join fences f using (run_id)
where a.action_id = %(action_id)s

-- name: lock_action
select * from actions where action_id = %(action_id)s for update

-- name: insert_action
-- Nothing is inserted when the id is taken, or when another revision of the step and slot is live.
insert into actions (action_id, run_id, step, slot, rev, kind, resource, params, request_hash, status, epoch,
                     events, head, created_at, updated_at)
values (%(action_id)s, %(run_id)s, %(step)s, %(slot)s, %(rev)s, %(kind)s, %(resource)s, %(params)s, %(request_hash)s,
        %(status)s, %(epoch)s, %(events)s, %(head)s, %(now_at)s, %(now_at)s)
on conflict do nothing
returning *

-- name: update_action
-- Compare-and-set: a record that has moved since it was read is not touched.
update actions
set status = %(status)s, provider_id = %(provider_id)s, receipt = %(receipt)s, reason = %(reason)s,
    alarm = %(alarm)s, epoch = %(epoch)s, claims = %(claims)s, claim_token = %(claim_token)s,
    instance = %(instance)s, deadline_at = %(deadline_at)s, first_sent_at = %(first_sent_at)s,
    not_before_at = %(not_before_at)s, approval_id = %(approval_id)s,
    events = %(events)s, head = %(head)s, version = version + 1, updated_at = %(now_at)s
where action_id = %(action_id)s and version = %(version)s

-- name: insert_event
-- Behind insert_action or update_action in the same transaction. Where that has not written the head that this event
-- makes, `seq` is null, which its column refuses: a compare-and-set that failed cannot commit, nor an event without it.
insert into action_events (action_id, seq, word, from_status, to_status, epoch, principal, instance, claim_token,
                           reason, detail, recorded_at, previous_hash, hash)
values (%(action_id)s,
        (select a.events from actions a
         where a.action_id = %(action_id)s and a.events = %(seq)s and a.head = %(hash)s),
        %(word)s, %(from_status)s, %(to_status)s, %(epoch)s, %(principal)s, %(instance)s,
        %(claim_token)s, %(reason)s, %(detail)s, %(recorded_at)s, %(previous_hash)s, %(hash)s)

-- name: events_of_action
select * from action_events where action_id = %(action_id)s order by seq

-- name: last_event
select * from action_events where action_id = %(action_id)s order by seq desc limit 1

-- name: claim_event
-- The claim that a token belongs to, also when a later claim has replaced it.
select * from action_events where action_id = %(action_id)s and word = 'claim' and claim_token = %(claim_token)s

-- name: live_revision
select * from actions_seen
where run_id = %(run_id)s and step = %(step)s and slot = %(slot)s and status <> 'WITHDRAWN'

-- name: actions_of_run
select * from actions_seen where run_id = %(run_id)s order by created_at, action_id

-- name: list_actions
select * from actions_seen
where (%(run_id)s::uuid is null or run_id = %(run_id)s)
  and (%(step)s::text is null or step = %(step)s)
  and (%(slot)s::text is null or slot = %(slot)s)
  and (%(status)s::action_status is null or status = %(status)s)
  and (%(after)s::uuid is null
       or (created_at, action_id) > (select created_at, action_id from actions where action_id = %(after)s))
order by created_at, action_id
limit %(limit)s

-- name: prepared_of_run
-- Locked in one order, so that two of these never wait for each other.
select * from actions where run_id = %(run_id)s and status = 'PREPARED' order by action_id for update

-- name: undecided_of_run
-- Live actions that a grant may decide.
select action_id from actions_seen
where run_id = %(run_id)s and kind = %(kind)s and status = 'PREPARED' and standing is null
order by action_id
