-- name: next_seq
-- Behind lock_run, so that the epoch is compared on a snapshot after any take-over. No row: this epoch is over.
update runs set last_seq = last_seq + 1, updated_at = onward_now()
where run_id = %(run_id)s
  and (%(epoch)s::bigint is null
       or exists (select from leases l where l.run_id = runs.run_id and l.epoch = %(epoch)s::bigint))
returning last_seq as seq;

-- name: insert_event
-- Behind next_seq in the same transaction: the number is the one that it has just made. Where it made none, no row.
insert into events (run_id, seq, epoch, kind, step, data)
select r.run_id, r.last_seq, %(epoch)s, %(kind)s, %(step)s, %(data)s from runs r
where r.run_id = %(run_id)s
  and (%(epoch)s::bigint is null
       or exists (select from leases l where l.run_id = r.run_id and l.epoch = %(epoch)s::bigint));

-- name: insert_step_started
-- An event as above that counts itself: the attempts of a step over all epochs.
insert into events (run_id, seq, epoch, kind, step, data)
select r.run_id, r.last_seq, %(epoch)s, 'step_started', %(step)s, jsonb_build_object('attempt', 1 + (
    select count(*) from events e where e.run_id = r.run_id and e.step = %(step)s and e.kind = 'step_started'))
from runs r
where r.run_id = %(run_id)s
  and exists (select from leases l where l.run_id = r.run_id and l.epoch = %(epoch)s)
returning (data ->> 'attempt')::integer as attempt;

-- name: events_after
select run_id, seq, epoch, kind, step, data, created_at from events
where run_id = %(run_id)s and seq > %(after)s order by seq limit %(limit)s;

-- name: unmatched_model_calls
-- Calls that were started and never finished: they count as paid, amount unknown.
select s.data ->> 'call_id' as call_id, s.step from events s
where s.run_id = %(run_id)s and s.kind = 'model_call_started' and not exists (
    select from events f
    where f.run_id = s.run_id and f.kind = 'model_call_finished' and f.data ->> 'call_id' = s.data ->> 'call_id')
order by s.seq;

-- name: last_event
select run_id, seq, epoch, kind, step, data, created_at from events
where run_id = %(run_id)s and kind = %(kind)s order by seq desc limit 1;

-- name: last_events
-- The newest first.
select run_id, seq, epoch, kind, step, data, created_at from events
where run_id = %(run_id)s order by seq desc limit %(limit)s;
