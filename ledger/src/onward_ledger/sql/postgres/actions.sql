-- name: clock
-- The database's time, read behind the locks that were waited for.
select onward_now() as now_at

-- name: glance
-- All that a call needs to know to begin with, on one snapshot and without a lock; one row also where nothing is
-- recorded yet. Final records never change, so this is enough for a replay. `remembered`: the last claim that this
-- process saw committed is there. If not, `forgotten` knows whether that is a loss.
select a.*, f.epoch as fence_epoch, f.closed_at as fence_closed_at, l.held_reason,
       coalesce(l.look_first_until_at > onward_now(), false) as looks_first,
       exists (select 1 from grants g where g.run_id = %(run_id)s and g.kind = %(kind)s) as has_grants,
       %(seen_seq)s::integer is null
       or exists (select 1 from action_events e
                  where e.action_id = %(seen_action_id)s and e.seq = %(seen_seq)s and e.hash = %(seen_hash)s)
       as remembered,
       onward_now() as now_at
from (select 1) as one
     left join ledger l on true
     left join fences f on f.run_id = %(run_id)s
     left join actions_seen a on a.action_id = %(action_id)s

-- name: look_at_action
-- A plain read, without a lock.
select * from actions_seen where action_id = %(action_id)s

-- name: lock_action
select * from actions where action_id = %(action_id)s for update

-- name: insert_action
-- Nothing is inserted when the id is taken, when another revision of the step and slot is live, when the run is closed
-- or was announced under an epoch beyond `newest_epoch`, or when it comes claimed while the ledger is held. An
-- announcement and a closing wait until this transaction has ended. What the ledger derived itself (a compensation) is
-- inserted for a closed run, too, while its records are there.
insert into actions (action_id, run_id, step, slot, rev, kind, resource, params, request_hash, status, epoch, claims,
                     claim_token, instance, deadline_at, first_sent_at, version, events, head, created_at, updated_at)
select %(action_id)s, f.run_id, %(step)s, %(slot)s, %(rev)s, %(kind)s, %(resource)s, %(params)s, %(request_hash)s,
       %(status)s, %(epoch)s, %(claims)s, %(claim_token)s, %(instance)s, %(deadline_at)s,
       %(first_sent_at)s, %(version)s, %(events)s, %(head)s, %(now_at)s, %(now_at)s
from (select run_id from fences
      where run_id = %(run_id)s and epoch <= %(newest_epoch)s
        and (closed_at is null or %(derived)s and pruned_at is null) for share) as f
where (%(claims)s = 0 or not exists (select 1 from ledger where held_at is not null))
on conflict do nothing

-- name: update_action
-- Compare-and-set: a record that has moved since it was read is not touched.
update actions
set status = %(status)s, provider_id = %(provider_id)s, receipt = %(receipt)s, reason = %(reason)s,
    alarm = %(alarm)s, epoch = %(epoch)s, claims = %(claims)s, claim_token = %(claim_token)s,
    instance = %(instance)s, deadline_at = %(deadline_at)s, first_sent_at = %(first_sent_at)s,
    not_before_at = %(not_before_at)s, approval_id = %(approval_id)s, in_doubt = %(in_doubt)s,
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

-- name: insert_event_if_written
-- The same in one message with the write that it belongs to, where nobody reads an answer in between: without that write
-- (its `events` and `head`) nothing is inserted.
insert into action_events (action_id, seq, word, from_status, to_status, epoch, principal, instance, claim_token,
                           reason, detail, recorded_at, previous_hash, hash)
select a.action_id, %(seq)s, %(word)s, %(from_status)s, %(to_status)s, %(epoch)s, %(principal)s, %(instance)s,
       %(claim_token)s, %(reason)s, %(detail)s, %(recorded_at)s, %(previous_hash)s, %(hash)s
from actions a
where a.action_id = %(action_id)s and a.events = %(written_events)s and a.head = %(written_head)s

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
