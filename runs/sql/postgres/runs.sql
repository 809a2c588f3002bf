-- name: insert_run
insert into runs (run_id, kind, owner, tenant, workflow_version, input_name, input_key, input_digest, input_size,
                  asks, model, params, deadline_at, budget_micros, budget_tokens, allowed_kinds, parent, store, objects,
                  ledger, wake_at)
values (%(run_id)s, %(kind)s, %(owner)s, %(tenant)s, %(workflow_version)s, %(input_name)s, %(input_key)s,
        %(input_digest)s, %(input_size)s, %(asks)s, %(model)s, %(params)s, %(deadline_at)s, %(budget_micros)s,
        %(budget_tokens)s, %(allowed_kinds)s, %(parent)s, %(store)s, %(objects)s, %(ledger)s,
        onward_later(onward_now(), %(wake_seconds)s::double precision));

-- name: lock_run
-- The first statement of whatever changes a run: it waits for a take-over in progress. The next statement then has a
-- snapshot that shows it, which a sub-select in this very statement would not.
select status::text as status, version from runs where run_id = %(run_id)s for no key update;

-- name: run
-- A run with who drives it. `now_at` is the clock that the lease is measured by.
select r.run_id, r.kind, r.status::text as status, r.reason, r.message, r.version, r.owner, r.tenant, r.workflow_version,
       r.input_name, r.input_key, r.input_digest, r.input_size, r.asks, r.model, r.params, r.deadline_at,
       r.budget_micros, r.spent_micros, r.input_tokens, r.output_tokens, r.failures, r.wake_at, r.parent, r.store,
       r.objects, r.ledger, r.last_seq, r.created_at, r.updated_at, r.finished_at, r.takeovers, r.budget_tokens,
       r.allowed_kinds, l.epoch, l.holder_id, l.expires_at, l.missed_at, l.seconds as lease_seconds,
       h.host, h.pid, h.process_started, h.kind as driver_kind,
       onward_holder_alive(l.holder_id) as holder_alive, onward_server_is_young(l.seconds) as server_is_young,
       onward_now() as now_at
from runs r left join leases l using (run_id) left join holders h using (holder_id)
where r.run_id = %(run_id)s;

-- name: run_ids_like
-- Ids that begin with what was typed (hexadecimal digits and dashes only; checked before).
select run_id from runs
where run_id like %(prefix)s || '%%' and (%(tenant)s::text is null or tenant = %(tenant)s)
order by run_id limit 5;

-- name: run_ids
-- Newest first; `status` null: all.
select run_id from runs
where (%(status)s::text is null or status::text = %(status)s) and (%(tenant)s::text is null or tenant = %(tenant)s)
order by created_at desc, run_id limit %(limit)s;

-- name: move_run
-- A transition: compare-and-set on status and version, and from a driver on the epoch as well.
update runs set
    status = %(to_status)s, version = version + 1, reason = %(reason)s, message = %(message)s,
    failures = %(failures)s,
    wake_at = onward_later(onward_now(), %(wake_seconds)s::double precision),
    finished_at = case when %(to_status)s::run_status in ('succeeded', 'failed', 'cancelled') then onward_now() end,
    updated_at = onward_now()
where run_id = %(run_id)s and status = %(from_status)s and version = %(version)s
  and (%(epoch)s::bigint is null
       or exists (select from leases l where l.run_id = runs.run_id and l.epoch = %(epoch)s::bigint));

-- name: add_spending
update runs set spent_micros = spent_micros + %(micros)s, input_tokens = input_tokens + %(input_tokens)s,
                output_tokens = output_tokens + %(output_tokens)s
where run_id = %(run_id)s
  and exists (select from leases l where l.run_id = runs.run_id and l.epoch = %(epoch)s)
returning spent_micros, input_tokens + output_tokens as tokens;

-- name: is_cancelled
-- Asked twice a second by whoever drives.
select 1 as asked from runs where run_id = %(run_id)s and status = 'cancel_requested';

-- name: count_failure
-- A run that is to be cancelled could not be stopped now.
update runs set failures = failures + 1
where run_id = %(run_id)s
  and exists (select 1 from leases l where l.run_id = runs.run_id and l.epoch = %(epoch)s);

-- name: note_progress
-- A finished step: transient failures and take-overs before it no longer count.
update runs set failures = 0, takeovers = 0
where run_id = %(run_id)s and (failures > 0 or takeovers > 0)
  and exists (select from leases l where l.run_id = runs.run_id and l.epoch = %(epoch)s);

-- name: count_takeover
-- Behind lock_run: one more driver is gone that had finished nothing.
update runs set takeovers = takeovers + 1 where run_id = %(run_id)s;

-- name: claimable
select run_id, workflow_version, status::text as status, epoch, holder_id, why from claimable order by run_id;
