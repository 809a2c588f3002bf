-- The fence on the checkpointer's tables. One writer at a time holds the whole file, so nothing needs a row lock.

-- name: unfenced_tables
-- Every table with a thread_id that lacks one of its two triggers.
select t.name as name
from sqlite_master t join pragma_table_info(t.name) c on c.name = 'thread_id'
where t.type = 'table' and 2 > (
    select count(*) from sqlite_master g
    where g.type = 'trigger' and g.tbl_name = t.name
      and g.name in ('hold_fence_insert_' || t.name, 'hold_fence_update_' || t.name))
order by 1;

-- name: fence_checkpoints_insert
-- onward_fence() is registered per connection; a connection without it cannot write at all.
create trigger if not exists hold_fence_insert_checkpoints before insert on checkpoints begin
    select raise(abort, 'stale epoch') where onward_fence() is not (
        select run_id || ':' || epoch from leases where run_id = new.thread_id);
end;

-- name: fence_checkpoints_update
create trigger if not exists hold_fence_update_checkpoints before update on checkpoints begin
    select raise(abort, 'stale epoch') where onward_fence() is not (
        select run_id || ':' || epoch from leases where run_id = new.thread_id);
end;

-- name: fence_writes_insert
create trigger if not exists hold_fence_insert_writes before insert on writes begin
    select raise(abort, 'stale epoch') where onward_fence() is not (
        select run_id || ':' || epoch from leases where run_id = new.thread_id);
end;

-- name: fence_writes_update
create trigger if not exists hold_fence_update_writes before update on writes begin
    select raise(abort, 'stale epoch') where onward_fence() is not (
        select run_id || ':' || epoch from leases where run_id = new.thread_id);
end;
