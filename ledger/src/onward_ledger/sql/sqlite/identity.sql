-- name: ensure_ledger
-- Once in the life of a database: its copies and backups are the same ledger.
insert into ledger (only_row, ledger_id, made_at) values (1, :ledger_id, onward_now())
on conflict do nothing

-- name: read_ledger
select * from ledger

-- name: hold_ledger
-- The first reason stands.
update ledger set held_at = onward_now(), held_reason = :reason where held_at is null

-- name: release_ledger
update ledger
set held_at = null, held_reason = null, released_at = onward_now(), released_by = :principal,
    released_reason = :reason, look_first_until_at = :look_first_until_at
where held_at is not null

-- name: forgotten
-- Which of these events, all of them committed once, are not in the database. It may have forgotten what was removed by
-- age, and what a person knew to be lost: everything before the last release. A ledger with another id forgets all.
select w.value ->> 'ledger_id' as ledger_id, l.ledger_id as found_ledger_id, w.value ->> 'action_id' as action_id,
       w.value ->> 'seq' as seq, w.value ->> 'recorded_at' as recorded_at
from json_each(:events) as w left join ledger l on true
where (l.released_at is null or w.value ->> 'recorded_at' > l.released_at)
  and (l.ledger_id is not w.value ->> 'ledger_id'
       or (not exists (select 1 from action_events e
                       where e.action_id = w.value ->> 'action_id' and e.seq = w.value ->> 'seq'
                         and e.hash = w.value ->> 'hash')
           and not exists (select 1 from fences f
                           where f.run_id = w.value ->> 'run_id' and f.pruned_at is not null)))
order by w.value ->> 'recorded_at' desc
