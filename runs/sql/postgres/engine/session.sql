-- What only Postgres has: sessions, their advisory locks, and who keeps whom waiting.

-- name: try_holder_key
-- Session lock: it ends with the session, however the process ends.
select pg_try_advisory_lock(holder_class(), %(holder_id)s) as locked, pg_backend_pid() as pid;

-- name: terminate_old_session
-- The half-dead former session of this very holder (a connection that broke on our side only).
select pg_terminate_backend(pid) as terminated from pg_locks
where locktype = 'advisory' and granted and objsubid = 2 and pid <> pg_backend_pid()
  and database = (select oid from pg_database where datname = current_database())
  and classid = holder_class()::oid and objid = %(holder_id)s::integer::oid;

-- name: backend_pid
-- The session that answers. Behind a pooler it need not be the one that answered before.
select pg_backend_pid() as pid;

-- name: limit_lock_wait
select set_config('lock_timeout', %(milliseconds)s::text, true) as lock_timeout;

-- name: terminate_blockers
-- Backends of the old driver that keep the session waiting. Their uncommitted writes are exactly the ones to lose.
-- After a long wait those of any process of ours that is silent in a transaction; not those that wait themselves.
select pid, pg_terminate_backend(pid) as terminated from pg_stat_activity
where pid = any (pg_blocking_pids(%(pid)s))
  and (application_name = %(application_name)s
       or (%(long)s and application_name like 'onward%%' and wait_event_type is distinct from 'Lock'));
