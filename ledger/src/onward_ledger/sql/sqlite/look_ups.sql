-- Look-ups in the background: of UNKNOWN actions, by kinds that can be asked.

-- name: due_for_sweep
-- IN_FLIGHT although the deadline is over or the sender is gone (the file lock lets one service run at a time, so every
-- other instance is); and UNKNOWN, not looked up yet or due again. The oldest come first.
select s.*
from actions_seen s left join look_ups l on l.action_id = s.action_id
where s.status in ('IN_FLIGHT', 'UNKNOWN')
  and (s.status = 'IN_FLIGHT' and s.kind in (select value from json_each(:kinds))
       and (s.deadline_at <= onward_now() or s.instance <> :me)
       or s.status = 'UNKNOWN' and s.kind in (select value from json_each(:asked_kinds))
       and (l.again_at <= onward_now()
            or l.action_id is null and julianday(s.updated_at) <= julianday(onward_now()) - :first_seconds / 86400.0))
order by coalesce(l.again_at, s.updated_at), s.action_id
limit :limit

-- name: take_look_up
-- One instance does it: the row comes back to the one that moves `again_at`. Should it die on the way, another one may
-- look at that time.
insert into look_ups (action_id, count, again_at, answer)
values (:action_id, 0, :held_until, '')
on conflict (action_id) do update set again_at = excluded.again_at
where look_ups.again_at <= onward_now()
returning count

-- name: note_look_up
update look_ups set count = count + 1, answer = :answer, again_at = :again_at where action_id = :action_id

-- name: unsettled_of_run
select * from actions_seen
where run_id = :run_id and status in ('IN_FLIGHT', 'UNKNOWN')
order by created_at, action_id
