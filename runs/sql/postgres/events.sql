-- name: next_seq
-- Behind lock_run, so that the epoch is compared on a snapshot after any take-over. No row: this epoch is over.
update runs set last_seq = last_seq + 1, updated_at = onward_now()
where run_id = %(run_id)s
  and (%(epoch)s::bigint is null
       or exists (select from leases l where l.run_id = runs.run_id and l.epoch = %(epoch)s::bigint))
returning last_seq as seq;

-- name: insert_event
insert into events (run_id, seq, epoch, kind, step, data)
values (%(run_id)s, %(seq)s, %(epoch)s, %(kind)s, %(step)s, %(data)s);

-- name: events_after
select run_id, seq, epoch, kind, step, data, created_at from events
where run_id = %(run_id)s and seq > %(after)s order by seq limit %(limit)s;

-- name: attempts_of_step
select count(*) as attempts from events where run_id = %(run_id)s and step = %(step)s and kind = 'step_started';

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
