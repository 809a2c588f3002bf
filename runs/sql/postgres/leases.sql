-- name: insert_holder
insert into holders (kind, host, pid, process_started) values (%(kind)s, %(host)s, %(pid)s, %(process_started)s)
returning holder_id;

-- name: lock_lease
select epoch, holder_id, expires_at <= onward_now() as over from leases where run_id = %(run_id)s for update;

-- name: take_lease
-- A new epoch. The caller holds the run row and has seen that the old holder may be replaced.
insert into leases (run_id, epoch, holder_id, seconds, expires_at)
values (%(run_id)s, %(epoch)s, %(holder_id)s, %(seconds)s,
        onward_later(onward_now(), %(seconds)s::double precision))
on conflict (run_id) do update set
    epoch = excluded.epoch, holder_id = excluded.holder_id, seconds = excluded.seconds, expires_at = excluded.expires_at,
    missed_at = null
where leases.epoch < excluded.epoch;

-- name: renew_lease
-- A heartbeat changes no key column, so it passes the fence's FOR KEY SHARE. No row: the epoch has moved.
update leases set expires_at = onward_later(onward_now(), seconds), missed_at = null
where run_id = %(run_id)s and epoch = %(epoch)s and holder_id = %(holder_id)s;

-- name: release_lease
update leases set holder_id = null, expires_at = onward_now()
where run_id = %(run_id)s and epoch = %(epoch)s;

-- name: epoch_of
select epoch from leases where run_id = %(run_id)s;

-- name: put_off_lease
-- Released, and not to be claimed by a worker before some seconds have passed.
update leases set holder_id = null, expires_at = onward_later(onward_now(), %(seconds)s::double precision)
where run_id = %(run_id)s and epoch = %(epoch)s;
