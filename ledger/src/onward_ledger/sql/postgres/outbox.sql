-- The outbox: what the service performs by itself. A row is there while its action is not settled; the trigger
-- actions_leave_outbox takes it out.

-- name: lock_line
-- Whoever stores into the same line waits until this transaction has ended, so that the order of `stored_at` is the order
-- of the commits. Two lines of the same hash wait for each other, and nothing worse. 2578 keeps these keys apart.
select pg_advisory_xact_lock(2578, hashtext(current_schema() || ' ' || %(kind)s::text || ' ' || %(resource)s::text))

-- name: put_into_outbox
-- Only for the record that was just written or locked (its `events` and `head`). In a line it comes behind all others,
-- whatever the clock says. What is there already keeps its place.
insert into outbox (action_id, kind, resource, in_order, stored_at, dispatch_at)
select a.action_id, a.kind, a.resource, %(in_order)s,
       greatest(onward_now(), (select o.stored_at + interval '1 microsecond' from outbox o
                               where o.in_order and %(in_order)s and o.kind = a.kind and o.resource = a.resource
                               order by o.stored_at desc, o.action_id desc limit 1)),
       onward_now()
from actions a
where a.action_id = %(action_id)s and a.events = %(written_events)s and a.head = %(written_head)s
on conflict (action_id) do nothing

-- name: take_over_place
-- The successor of an edited action takes its place in the line.
insert into outbox (action_id, kind, resource, in_order, stored_at, dispatch_at)
values (%(action_id)s, %(kind)s, %(resource)s, %(in_order)s, %(stored_at)s, onward_now())

-- name: outbox_entry
select * from outbox where action_id = %(action_id)s

-- name: due_outbox
-- What may be sent now: of each line its head alone, and of the kinds that need one, only what is approved. A first look
-- without a lock; the claim decides. `heads` goes from line to line by the index, not from row to row.
with recursive heads (action_id) as (
    (select action_id from outbox where in_order order by kind, resource, stored_at, action_id limit 1)
    union all
    select coalesce((select n.action_id from outbox n
                     where n.in_order and n.kind = o.kind and n.resource > o.resource
                     order by n.resource, n.stored_at, n.action_id limit 1),
                    (select n.action_id from outbox n
                     where n.in_order and n.kind > o.kind
                     order by n.kind, n.resource, n.stored_at, n.action_id limit 1))
    from heads h join outbox o on o.action_id = h.action_id
)
select a.*, o.attempts
from outbox o join actions a on a.action_id = o.action_id
where o.dead_at is null and o.dispatch_at <= onward_now()
  and (not o.in_order or o.action_id in (select action_id from heads where action_id is not null))
  and a.status = 'PREPARED' and (a.not_before_at is null or a.not_before_at <= onward_now())
  and (a.approval_id is not null
       or a.kind not in (select json_array_elements_text(%(approved_kinds)s::json))
       or exists (select from decisions d
                  where d.action_id = a.action_id and d.superseded_at is null and d.decision = 'approve'
                    and (d.expires_at is null or d.expires_at > onward_now())
                    and (d.approvers = 1 or d.seconded_at is not null)))
  and not exists (select from ledger where held_at is not null)
order by o.dispatch_at, o.stored_at, o.action_id
limit %(limit)s

-- name: count_attempt
-- In the transaction that claims: an attempt that nobody survives is counted too.
update outbox set attempts = attempts + 1 where action_id = %(action_id)s

-- name: put_off
-- `attempts` is how many there were, so that one which a claim has counted is not counted twice.
update outbox set attempts = greatest(attempts, %(attempts)s), dispatch_at = %(dispatch_at)s
where action_id = %(action_id)s and dead_at is null

-- name: mark_dead
update outbox
set attempts = greatest(attempts, %(attempts)s), dead_at = %(now_at)s, dead_reason = %(reason)s
where action_id = %(action_id)s and dead_at is null

-- name: revive
update outbox set attempts = 0, dispatch_at = %(now_at)s, dead_at = null, dead_reason = null
where action_id = %(action_id)s and dead_at is not null

-- name: list_outbox
select s.*, to_json(o) as outbox
from outbox o join actions_seen s on s.action_id = o.action_id
where (%(dead)s::boolean is null or (o.dead_at is not null) = %(dead)s)
  and (%(run_id)s::uuid is null or s.run_id = %(run_id)s)
  and (%(after)s::uuid is null
       or (o.stored_at, o.action_id) > (select stored_at, action_id from outbox where action_id = %(after)s))
order by o.stored_at, o.action_id
limit %(limit)s

-- name: look_closely
-- One action with all that is known of it.
select s.*, case when o.action_id is not null then to_json(o) end as outbox,
       case when l.action_id is not null then to_json(l) end as look_ups
from actions_seen s
     left join outbox o on o.action_id = s.action_id
     left join look_ups l on l.action_id = s.action_id
where s.action_id = %(action_id)s
