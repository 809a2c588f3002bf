-- name: one_snapshot
-- A reading transaction is one already.
select 1 as one_snapshot

-- name: export_pruned
-- Runs whose records were removed by age, in the order of their ids.
select run_id, pruned_at, closed_by, closed_reason
from fences
where pruned_at is not null
  and (:run_id is null or run_id = :run_id)
  and (:behind is null or run_id > :behind)
order by run_id
limit :limit

-- name: export_actions
-- In the order of their ids, so that two exports can be read side by side.
select * from actions
where (:run_id is null or run_id = :run_id)
  and (:created_after is null or created_at >= :created_after)
  and (:behind is null or action_id > :behind)
order by action_id
limit :limit

-- name: export_events
select e.* from json_each(:action_ids) as wanted
join action_events e on e.action_id = wanted.value
order by e.action_id, e.seq

-- name: export_decisions
select d.* from json_each(:action_ids) as wanted
join decisions d on d.action_id = wanted.value
order by d.action_id, d.decision_id
