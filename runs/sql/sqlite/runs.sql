-- name: insert_run
insert into runs (run_id, kind, owner, tenant, workflow_version, input_name, input_key, input_digest, input_size,
                  asks, model, params, deadline_at, budget_micros, budget_tokens, allowed_kinds, parent, store, objects,
                  ledger, wake_at, created_at, updated_at)
values (:run_id, :kind, :owner, :tenant, :workflow_version, :input_name, :input_key,
        :input_digest, :input_size, :asks, :model, :params, :deadline_at, :budget_micros,
        :budget_tokens, :allowed_kinds, :parent, :store, :objects, :ledger,
        onward_later(onward_now(), :wake_seconds), onward_now(), onward_now());

-- name: lock_run
-- The write transaction holds everything; this is the read that the caller needs.
select status, version from runs where run_id = :run_id;

-- name: run
-- A run with who drives it. `now_at` is the clock that the lease is measured by.
select r.run_id, r.kind, r.status, r.reason, r.message, r.version, r.owner, r.tenant, r.workflow_version,
       r.input_name, r.input_key, r.input_digest, r.input_size, r.asks, r.model, r.params, r.deadline_at,
       r.budget_micros, r.spent_micros, r.input_tokens, r.output_tokens, r.failures, r.wake_at, r.parent, r.store,
       r.objects, r.ledger, r.last_seq, r.created_at, r.updated_at, r.finished_at, r.takeovers, r.budget_tokens,
       r.allowed_kinds, l.epoch, l.holder_id, l.expires_at, l.missed_at, l.seconds as lease_seconds,
       h.host, h.pid, h.process_started, h.kind as driver_kind,
       onward_holder_alive(l.holder_id) as holder_alive, 0 as server_is_young,
       onward_now() as now_at
from runs r left join leases l using (run_id) left join holders h using (holder_id)
where r.run_id = :run_id;

-- name: run_ids_like
-- Ids that begin with what was typed (hexadecimal digits and dashes only; checked before).
select run_id from runs
where run_id like :prefix || '%' and (:tenant is null or tenant = :tenant)
order by run_id limit 5;

-- name: run_ids
-- Newest first; `status` null: all.
select run_id from runs
where (:status is null or status = :status) and (:tenant is null or tenant = :tenant)
order by created_at desc, run_id limit :limit;

-- name: move_run
-- A transition: compare-and-set on status and version, and from a driver on the epoch as well.
update runs set
    status = :to_status, version = version + 1, reason = :reason, message = :message,
    failures = :failures,
    wake_at = onward_later(onward_now(), :wake_seconds),
    finished_at = case when :to_status in ('succeeded', 'failed', 'cancelled') then onward_now() end,
    updated_at = onward_now()
where run_id = :run_id and status = :from_status and version = :version
  and (:epoch is null
       or exists (select 1 from leases l where l.run_id = runs.run_id and l.epoch = :epoch));

-- name: add_spending
update runs set spent_micros = spent_micros + :micros, input_tokens = input_tokens + :input_tokens,
                output_tokens = output_tokens + :output_tokens
where run_id = :run_id
  and exists (select 1 from leases l where l.run_id = runs.run_id and l.epoch = :epoch)
returning spent_micros, input_tokens + output_tokens as tokens;

-- name: is_cancelled
-- Asked twice a second by whoever drives.
select 1 as asked from runs where run_id = :run_id and status = 'cancel_requested';

-- name: count_failure
-- A run that is to be cancelled could not be stopped now.
update runs set failures = failures + 1
where run_id = :run_id
  and exists (select 1 from leases l where l.run_id = runs.run_id and l.epoch = :epoch);

-- name: note_progress
-- A finished step: transient failures and take-overs before it no longer count.
update runs set failures = 0, takeovers = 0
where run_id = :run_id and (failures > 0 or takeovers > 0)
  and exists (select 1 from leases l where l.run_id = runs.run_id and l.epoch = :epoch);

-- name: count_takeover
-- Behind lock_run: one more driver is gone that had finished nothing.
update runs set takeovers = takeovers + 1 where run_id = :run_id;

-- name: claimable
select run_id, workflow_version, status, epoch, holder_id, why from claimable order by run_id;
