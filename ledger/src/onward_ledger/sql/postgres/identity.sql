-- name: ensure_ledger
-- Once in the life of a database: its copies and backups are the same ledger.
insert into ledger (ledger_id, made_at) values (%(ledger_id)s, onward_now())
on conflict do nothing

-- name: read_ledger
select * from ledger

-- name: hold_ledger
-- The first reason stands.
update ledger set held_at = onward_now(), held_reason = %(reason)s where held_at is null

-- name: release_ledger
update ledger
set held_at = null, held_reason = null, released_at = onward_now(), released_by = %(principal)s,
    released_reason = %(reason)s, look_first_until_at = %(look_first_until_at)s
where held_at is not null

-- name: forgotten
-- Which of these events, all of them committed once, are not in the database. It may have forgotten what was removed by
-- age, and what a person knew to be lost: everything before the last release. A ledger with another id forgets all.
select w.ledger_id, l.ledger_id as found_ledger_id, w.action_id, w.seq, w.recorded_at
from json_to_recordset(%(events)s::json)
         as w(ledger_id uuid, action_id uuid, run_id uuid, seq integer, hash text, recorded_at timestamptz)
     left join ledger l on true
where (l.released_at is null or w.recorded_at > l.released_at)
  and (l.ledger_id is distinct from w.ledger_id
       or (not exists (select from action_events e
                       where e.action_id = w.action_id and e.seq = w.seq and e.hash = w.hash)
           and not exists (select from fences f where f.run_id = w.run_id and f.pruned_at is not null)))
order by w.recorded_at desc
