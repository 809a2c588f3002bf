-- name: one_snapshot
-- First in its transaction: every later statement sees the database as of the next one.
set transaction isolation level repeatable read, read only

-- name: export_pruned
-- Runs whose records were removed by age, in the order of their ids.
select run_id, pruned_at, closed_by, closed_reason
from fences
where pruned_at is not null
  and (%(run_id)s::uuid is null or run_id = %(run_id)s)
  and (%(behind)s::uuid is null or run_id > %(behind)s)
order by run_id
limit %(limit)s

-- name: export_actions
-- In the order of their ids, so that two exports can be read side by side.
select * from actions
where (%(run_id)s::uuid is null or run_id = %(run_id)s)
  and (%(created_after)s::timestamptz is null or created_at >= %(created_after)s)
  and (%(behind)s::uuid is null or action_id > %(behind)s)
order by action_id
limit %(limit)s

-- name: export_events
select e.* from json_array_elements_text(%(action_ids)s::json) as wanted
join action_events e on e.action_id = wanted.value::uuid
order by e.action_id, e.seq

-- name: export_decisions
select d.* from json_array_elements_text(%(action_ids)s::json) as wanted
join decisions d on d.action_id = wanted.value::uuid
order by d.action_id, d.decision_id
