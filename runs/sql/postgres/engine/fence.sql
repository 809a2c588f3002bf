-- The fence on the checkpointer's tables, which are the checkpointer's own and appear after its set-up.

-- name: try_setup_lock
-- One process at a time sets up. "try" in a loop, never a waiting pg_advisory_lock: the set-up creates an index
-- concurrently, which waits for every snapshot, also that of a session that waits for this lock.
select pg_try_advisory_lock(hashtext('onward set-up'), hashtext(current_schema())) as locked;

-- name: release_setup_lock
select pg_advisory_unlock(hashtext('onward set-up'), hashtext(current_schema())) as unlocked;

-- name: schema_version
-- The version of our own tables.
select version from schema_version;

-- name: checkpoint_version
-- The last migration that the checkpointer applied; null before its first set-up.
select max(v) as version from checkpoint_migrations;

-- name: has_checkpoints
select to_regclass('checkpoint_migrations') is not null as found;

-- name: unfenced_tables
-- Every table with a thread_id that lacks the trigger, or has it disabled.
select c.relname as name
from pg_class c
join pg_attribute a on a.attrelid = c.oid and a.attname = 'thread_id' and not a.attisdropped
where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p')
  and not exists (
      select from pg_trigger t
      where t.tgrelid = c.oid and t.tgfoid = 'hold_fence'::regproc and t.tgenabled in ('O', 'A')
  )
order by 1;

-- name: install_fence
do $$
declare
    unfenced text;
begin
    for unfenced in
        select c.relname
        from pg_class c
        join pg_attribute a on a.attrelid = c.oid and a.attname = 'thread_id' and not a.attisdropped
        where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p')
    loop
        execute format('create or replace trigger hold_fence before insert or update on %%I '
                       'for each row execute function hold_fence()', unfenced);
    end loop;
end $$;

-- name: my_fence
select nullif(current_setting('onward.fence', true), '') as fence, current_schema()::text as schema;

-- name: hold_fence_here
-- Until the end of this transaction only: the very transaction that has taken the epoch writes checkpoints under it.
select set_config('onward.fence', %(fence)s, true) as fence;
