-- name: insert_worker
insert into workers (holder_id, versions, concurrency, seen_at)
values (:holder_id, :versions, :concurrency, onward_now());

-- name: see_worker
update workers set seen_at = onward_now() where holder_id = :holder_id;

-- name: workers
-- The living ones, and what they serve.
select w.holder_id, w.versions, w.concurrency, w.seen_at, h.host, h.pid, h.started_at
from workers w join holders h using (holder_id)
where onward_holder_alive(w.holder_id) order by w.holder_id;

-- name: cursor
select position from cursors where name = :feed;

-- name: move_cursor
-- It never goes back: several followers read the same feed.
insert into cursors (name, position) values (:feed, :position)
on conflict (name) do update set position = excluded.position where cursors.position < excluded.position;

-- name: insert_barred
insert into barred (tenant, principal, reason, barred_by, created_at)
values (:tenant, :principal, :reason, :barred_by, onward_now())
on conflict (tenant, principal) do nothing;

-- name: delete_barred
delete from barred where tenant = :tenant and principal = :principal;

-- name: barred
select tenant, principal, reason, barred_by, created_at from barred
where tenant = :tenant and (:principal is null or principal = :principal) order by principal;

-- name: insert_answer
-- The first one stands.
insert into answers (run_id, interrupt_id, value, principal, created_at)
values (:run_id, :interrupt_id, :value, :principal, onward_now())
on conflict (run_id, interrupt_id) do nothing;

-- name: answers
select interrupt_id, value, principal, created_at from answers where run_id = :run_id order by created_at;
