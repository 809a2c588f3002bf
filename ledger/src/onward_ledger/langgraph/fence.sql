-- The fence of LangGraph's own checkpoint tables, beside them: no table of anybody else's is touched.

-- name: place
-- The schema in which this connection finds the checkpointer's tables; null before the checkpointer's set-up.
select (select n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where c.oid = to_regclass('checkpoints')) as schema;

-- name: lock_install
-- One process at a time; it ends with the transaction. The function and the triggers are made in this schema.
select pg_advisory_xact_lock(hashtext('onward fence'), hashtext(%(schema)s)),
       set_config('search_path', quote_ident(%(schema)s) || ', pg_temp', true);

-- name: make_fence
-- FOR KEY SHARE on a row whose key holds the epoch: writers pass one another, a take-over waits for writes in progress,
-- and every write after it sees the new epoch. It fails closed: a connection that says nothing writes no managed thread.
-- Security definer, so that who writes checkpoints needs no right on the epochs, and cannot move them.
create table if not exists onward_fence (
    thread_id  text primary key,
    epoch      bigint not null check (epoch > 0),
    taken_at   timestamptz not null default clock_timestamp(),
    unique (thread_id, epoch)
);

create or replace function onward_fence_hold() returns trigger language plpgsql security definer
set search_path from current as $$
declare
    thread text := case when tg_op = 'DELETE' then old.thread_id else new.thread_id end;
    mine text := nullif(current_setting('onward.fence', true), '');
    current_epoch bigint;
begin
    if tg_op = 'DELETE' and mine is null then
        return old;                           -- who tidies up drives nothing
    end if;
    select epoch into current_epoch from onward_fence where thread_id = thread for key share;
    if mine is distinct from thread || ':' || current_epoch and (mine is not null or current_epoch is not null) then
        raise exception 'stale epoch: this connection holds %, the thread is at %:%', mine, thread, current_epoch
            using errcode = 'OW001',          -- our own, so that no retry policy takes it for a transient error
                  hint = 'Another driver has taken the thread, or the start-up options did not arrive (a pooler).';
    end if;
    return case when tg_op = 'DELETE' then old else new end;
end $$;

-- name: unfenced
-- Tables of the checkpointer that hold something of a thread and lack the trigger, or have it disabled. A newer version
-- of the checkpointer may have made one more.
select c.relname as name
from pg_class c
join pg_attribute a on a.attrelid = c.oid and a.attname = 'thread_id' and not a.attisdropped
where c.relnamespace = (select relnamespace from pg_class where oid = to_regclass('checkpoints'))
  and c.relkind in ('r', 'p') and starts_with(c.relname, 'checkpoint')
  and not exists (
      select from pg_trigger t
      where t.tgrelid = c.oid and t.tgfoid = to_regproc('onward_fence_hold') and t.tgenabled in ('O', 'A')
  )
order by 1;

-- name: limit_lock_wait
select set_config('lock_timeout', %(milliseconds)s::text, true);

-- name: take
-- Waits for the writes in progress of the driver before.
insert into onward_fence as known (thread_id, epoch) values (%(thread_id)s, 1)
on conflict (thread_id) do update set epoch = known.epoch + 1, taken_at = clock_timestamp()
returning epoch;

-- name: terminate_blockers
-- Sessions of earlier drivers of the thread that are in the middle of a write. What they have not committed is exactly
-- what is to be lost.
select pg_terminate_backend(pid) from pg_stat_activity
where application_name = %(application_name)s and xact_start is not null and pid <> pg_backend_pid();
