-- The outbox: what the service performs by itself. A row is there while its action is not settled; the trigger
-- actions_leave_outbox takes it out.

-- name: lock_line
-- A write transaction holds the file, so the order of `stored_at` is the order of the commits without more.
select :kind as kind, :resource as resource

-- name: put_into_outbox
-- Only for the record that was just written or locked (its `events` and `head`). In a line it comes behind all others,
-- whatever the clock says. What is there already keeps its place.
insert into outbox (action_id, kind, resource, in_order, stored_at, dispatch_at)
select a.action_id, a.kind, a.resource, :in_order,
       max(onward_now(), coalesce((select onward_behind(o.stored_at) from outbox o
                                   where o.in_order and :in_order and o.kind = a.kind and o.resource = a.resource
                                   order by o.stored_at desc, o.action_id desc limit 1), '')),
       onward_now()
from actions a
where a.action_id = :action_id and a.events = :written_events and a.head = :written_head
on conflict (action_id) do nothing

-- name: take_over_place
-- The successor of an edited action takes its place in the line.
insert into outbox (action_id, kind, resource, in_order, stored_at, dispatch_at)
values (:action_id, :kind, :resource, :in_order, :stored_at, onward_now())

-- name: outbox_entry
select * from outbox where action_id = :action_id

-- name: due_outbox
-- What may be sent now: of each line its head alone, and of the kinds that need one, only what is approved. A first look
-- without a lock; the claim decides. `heads` goes from line to line by the index, not from row to row.
with recursive heads (action_id) as (
    select action_id
    from (select action_id from outbox where in_order order by kind, resource, stored_at, action_id limit 1)
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
       or a.kind not in (select value from json_each(:approved_kinds))
       or exists (select 1 from decisions d
                  where d.action_id = a.action_id and d.superseded_at is null and d.decision = 'approve'
                    and (d.expires_at is null or d.expires_at > onward_now())
                    and (d.approvers = 1 or d.seconded_at is not null)))
  and not exists (select 1 from ledger where held_at is not null)
order by o.dispatch_at, o.stored_at, o.action_id
limit :limit

-- name: count_attempt
-- In the transaction that claims: an attempt that nobody survives is counted too.
update outbox set attempts = attempts + 1 where action_id = :action_id

-- name: put_off
-- `attempts` is how many there were, so that one which a claim has counted is not counted twice.
update outbox set attempts = max(attempts, :attempts), dispatch_at = :dispatch_at
where action_id = :action_id and dead_at is null

-- name: mark_dead
update outbox
set attempts = max(attempts, :attempts), dead_at = :now_at, dead_reason = :reason
where action_id = :action_id and dead_at is null

-- name: revive
update outbox set attempts = 0, dispatch_at = :now_at, dead_at = null, dead_reason = null
where action_id = :action_id and dead_at is not null

-- name: list_outbox
select s.*, json_object('in_order', o.in_order, 'stored_at', o.stored_at, 'dispatch_at', o.dispatch_at,
                        'attempts', o.attempts, 'dead_at', o.dead_at, 'dead_reason', o.dead_reason) as outbox
from outbox o join actions_seen s on s.action_id = o.action_id
where (:dead is null or (o.dead_at is not null) = :dead)
  and (:run_id is null or s.run_id = :run_id)
  and (:after is null
       or (o.stored_at, o.action_id) > (select stored_at, action_id from outbox where action_id = :after))
order by o.stored_at, o.action_id
limit :limit

-- name: look_closely
-- One action with all that is known of it.
select s.*, case when o.action_id is not null then
                json_object('in_order', o.in_order, 'stored_at', o.stored_at, 'dispatch_at', o.dispatch_at,
                            'attempts', o.attempts, 'dead_at', o.dead_at, 'dead_reason', o.dead_reason) end as outbox,
       case when l.action_id is not null then
                json_object('count', l.count, 'again_at', l.again_at, 'answer', l.answer) end as look_ups
from actions_seen s
     left join outbox o on o.action_id = s.action_id
     left join look_ups l on l.action_id = s.action_id
where s.action_id = :action_id
