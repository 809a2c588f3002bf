-- Look-ups in the background: of UNKNOWN actions, by kinds that can be asked.

-- name: due_for_sweep
-- IN_FLIGHT although the deadline is over or the sender is gone (its session, and with it its lock, has ended); and
-- UNKNOWN, not looked up yet or due again. The oldest come first. A look without a lock: who acts on it looks again.
select s.*
from actions_seen s
     join instances i on i.instance = s.instance
     left join look_ups l on l.action_id = s.action_id
where s.status in ('IN_FLIGHT', 'UNKNOWN')
  and (s.status = 'IN_FLIGHT' and s.kind in (select json_array_elements_text(%(kinds)s::json))
       and (s.deadline_at <= onward_now()
            or i.instance <> %(me)s and not exists (
                select from pg_locks k
                where k.locktype = 'advisory' and k.objsubid = 1 and k.granted
                  and k.database = (select oid from pg_database where datname = current_database())
                  and ((k.classid::bigint << 32) | k.objid::bigint) = i.lock_key))
       or s.status = 'UNKNOWN' and s.kind in (select json_array_elements_text(%(asked_kinds)s::json))
       and (l.again_at <= onward_now()
            or l.action_id is null and s.updated_at <= onward_now() - make_interval(secs => %(first_seconds)s)))
order by coalesce(l.again_at, s.updated_at), s.action_id
limit %(limit)s

-- name: take_look_up
-- One instance does it: the row comes back to the one that moves `again_at`. Should it die on the way, another one may
-- look at that time.
insert into look_ups (action_id, count, again_at, answer)
values (%(action_id)s, 0, %(held_until)s, '')
on conflict (action_id) do update set again_at = excluded.again_at
where look_ups.again_at <= onward_now()
returning count

-- name: note_look_up
update look_ups set count = count + 1, answer = %(answer)s, again_at = %(again_at)s where action_id = %(action_id)s

-- name: unsettled_of_run
select * from actions_seen
where run_id = %(run_id)s and status in ('IN_FLIGHT', 'UNKNOWN')
order by created_at, action_id
