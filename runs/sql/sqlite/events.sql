-- name: next_seq
-- No row: this epoch is over.
update runs set last_seq = last_seq + 1, updated_at = onward_now()
where run_id = :run_id
  and (:epoch is null
       or exists (select 1 from leases l where l.run_id = runs.run_id and l.epoch = :epoch))
returning last_seq as seq;

-- name: insert_event
-- Behind next_seq in the same transaction: the number is the one that it has just made. Where it made none, no row.
insert into events (run_id, seq, epoch, kind, step, data, created_at)
select r.run_id, r.last_seq, :epoch, :kind, :step, :data, onward_now() from runs r
where r.run_id = :run_id
  and (:epoch is null
       or exists (select 1 from leases l where l.run_id = r.run_id and l.epoch = :epoch));

-- name: insert_step_started
-- An event as above that counts itself: the attempts of a step over all epochs.
insert into events (run_id, seq, epoch, kind, step, data, created_at)
select r.run_id, r.last_seq, :epoch, 'step_started', :step, json_object('attempt', 1 + (
    select count(*) from events e where e.run_id = r.run_id and e.step = :step and e.kind = 'step_started')),
    onward_now()
from runs r
where r.run_id = :run_id
  and exists (select 1 from leases l where l.run_id = r.run_id and l.epoch = :epoch)
returning json_extract(data, '$.attempt') as attempt;

-- name: events_after
select run_id, seq, epoch, kind, step, data, created_at from events
where run_id = :run_id and seq > :after order by seq limit :limit;

-- name: unmatched_model_calls
-- Calls that were started and never finished: they count as paid, amount unknown.
select json_extract(s.data, '$.call_id') as call_id, s.step from events s
where s.run_id = :run_id and s.kind = 'model_call_started' and not exists (
    select 1 from events f
    where f.run_id = s.run_id and f.kind = 'model_call_finished' and json_extract(f.data, '$.call_id') = json_extract(s.data, '$.call_id'))
order by s.seq;

-- name: last_event
select run_id, seq, epoch, kind, step, data, created_at from events
where run_id = :run_id and kind = :kind order by seq desc limit 1;

-- name: last_events
-- The newest first.
select run_id, seq, epoch, kind, step, data, created_at from events
where run_id = :run_id order by seq desc limit :limit;
