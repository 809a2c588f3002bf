-- Removal by age, by runs: those whose fence is closed, whose records are all final, and that nothing has touched since.
-- A closed fence admits no new record but a compensation, which touches the run, and a final record stays final. So what
-- may be removed once may be removed later.

-- name: prunable_runs
-- The longest closed first.
select f.run_id
from fences f
where f.closed_at < :before and f.pruned_at is null
  and not exists (select 1 from actions a
                  where a.run_id = f.run_id
                    and (a.status not in ('SUCCEEDED', 'FAILED', 'WITHDRAWN') or a.updated_at >= :before))
order by f.closed_at, f.run_id
limit :limit

-- name: count_records
-- What the ledger holds of these runs.
select (select count(*) from actions where run_id in (select value from json_each(:runs))) as actions,
       (select count(*) from action_events where action_id in (
            select action_id from actions where run_id in (select value from json_each(:runs)))) as events,
       (select count(*) from decisions where action_id in (
            select action_id from actions where run_id in (select value from json_each(:runs)))) as decisions

-- name: lock_prunable
-- A write transaction holds the whole file.
select run_id from fences
where run_id in (select value from json_each(:runs)) and closed_at is not null and pruned_at is null
order by run_id

-- name: lock_records_of_runs
-- Then their actions. `touched`: something came in between, a late answer above all.
select run_id, status not in ('SUCCEEDED', 'FAILED', 'WITHDRAWN') or updated_at >= :before as touched
from actions
where run_id in (select value from json_each(:runs))
order by action_id

-- name: allow_pruning
-- Seen by this transaction alone: it is taken back before the commit.
update ledger set pruning = :allowed

-- name: prune_feed
-- Numbers are never given again, so a follower whose cursor points here goes on behind the gap.
delete from feed where action_id in (select action_id from actions where run_id in (select value from json_each(:runs)))

-- name: prune_look_ups
delete from look_ups where action_id in (select action_id from actions where run_id in (select value from json_each(:runs)))

-- name: prune_outbox
delete from outbox where action_id in (select action_id from actions where run_id in (select value from json_each(:runs)))

-- name: unbind_approvals
-- Actions and decisions refer to each other; one of them goes first.
update actions set approval_id = null where approval_id is not null and run_id in (select value from json_each(:runs))

-- name: prune_decisions
delete from decisions where action_id in (select action_id from actions where run_id in (select value from json_each(:runs)))

-- name: prune_events
delete from action_events where action_id in (select action_id from actions where run_id in (select value from json_each(:runs)))

-- name: prune_actions
delete from actions where run_id in (select value from json_each(:runs))

-- name: prune_grants
delete from grants where run_id in (select value from json_each(:runs))

-- name: mark_pruned
-- The fence stays, closed for ever: a late request for the run finds it, and is refused.
update fences set pruned_at = onward_now() where run_id in (select value from json_each(:runs))
