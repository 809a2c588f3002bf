-- name: ensure_fence
-- A run that nobody has announced is known from its first action on.
insert into fences (run_id, epoch, announced_at) values (%(run_id)s, %(epoch)s, onward_now())
on conflict (run_id) do nothing

-- name: share_fence
-- An announcement waits until this transaction has ended; claims do not wait for each other. With it, whether the ledger
-- may send.
select f.*, l.held_reason,
       coalesce(l.look_first_until_at > onward_now(), false) as looks_first
from fences f left join ledger l on true
where f.run_id = %(run_id)s for share of f

-- name: read_fence
select * from fences where run_id = %(run_id)s

-- name: announce_epoch
-- A higher epoch, or the same one by the same holder. No row comes back when the announcement is stale.
insert into fences (run_id, epoch, holder, announced_at)
values (%(run_id)s, %(epoch)s, %(holder)s, onward_now())
on conflict (run_id) do update
set epoch = excluded.epoch, holder = excluded.holder, announced_at = excluded.announced_at
where fences.epoch < excluded.epoch
   or (fences.epoch = excluded.epoch and coalesce(fences.holder, excluded.holder) = excluded.holder)
returning *

-- name: raise_fence
-- An action under an epoch that was not announced announces it.
update fences set epoch = %(epoch)s, holder = null, announced_at = onward_now()
where run_id = %(run_id)s and epoch < %(epoch)s

-- name: close_fence
-- The first closing stands.
insert into fences (run_id, epoch, announced_at, closed_at, closed_by, closed_reason)
values (%(run_id)s, 0, onward_now(), onward_now(), %(principal)s, %(reason)s)
on conflict (run_id) do update
set closed_at = coalesce(fences.closed_at, excluded.closed_at),
    closed_by = case when fences.closed_at is null then excluded.closed_by else fences.closed_by end,
    closed_reason = coalesce(fences.closed_reason, excluded.closed_reason)
returning *
