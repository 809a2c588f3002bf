-- What the checkpointer of Postgres does by itself: of each namespace only the last checkpoint stays, with its writes.

-- name: uses_deltas
-- A graph with delta channels rebuilds its values from older checkpoints; they are all needed.
select count(*) > 0 as found from checkpoints
where thread_id = :run_id and json_extract(cast(metadata as text), '$.counters_since_delta_snapshot') is not null;

-- name: thin_writes
delete from writes
where thread_id = :run_id and checkpoint_id not in (
    select max(c.checkpoint_id) from checkpoints c
    where c.thread_id = :run_id and c.checkpoint_ns = writes.checkpoint_ns)
  -- Writes may commit before the checkpoint that they belong to: those of one that is not there stay.
  and exists (select 1 from checkpoints c where c.thread_id = writes.thread_id
              and c.checkpoint_ns = writes.checkpoint_ns and c.checkpoint_id = writes.checkpoint_id);

-- name: thin_checkpoints
delete from checkpoints
where thread_id = :run_id and checkpoint_id not in (
    select max(c.checkpoint_id) from checkpoints c
    where c.thread_id = :run_id and c.checkpoint_ns = checkpoints.checkpoint_ns);

-- name: forget_parents
-- What is left begins here.
update checkpoints set parent_checkpoint_id = null where thread_id = :run_id and parent_checkpoint_id is not null;
