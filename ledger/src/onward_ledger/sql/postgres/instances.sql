-- name: start_instance
insert into instances (instance, lock_key, version, host, pid, started_at)
values (%(instance)s, %(lock_key)s, %(version)s, %(host)s, %(pid)s, onward_now())

-- name: stop_instance
update instances set stopped_at = onward_now() where instance = %(instance)s

-- name: gone_in_flight
-- Actions whose sender is gone: its session, and with it its advisory lock, has ended. `me` is never gone.
select a.action_id
from actions a join instances i using (instance)
where a.status = 'IN_FLIGHT' and i.instance <> %(me)s
  and (%(action_id)s::uuid is null or a.action_id = %(action_id)s)
  and not exists (
      select from pg_locks l
      where l.locktype = 'advisory' and l.objsubid = 1 and l.granted
        and l.database = (select oid from pg_database where datname = current_database())
        and ((l.classid::bigint << 32) | l.objid::bigint) = i.lock_key)
order by a.action_id
