-- Makes %(actions)s actions with their histories, as they stand after as many runs of ten actions each: all succeeded,
-- but five that a person has to look at. Valid for every constraint; the hashes are of the right form, no chain.

insert into instances (instance, lock_key, version, host, pid, started_at, stopped_at)
values (md5('fill')::uuid, -1, 'fill', 'fill', 1, now() - interval '90 days', now() - interval '1 day');

insert into fences (run_id, epoch, holder, announced_at)
select md5('run ' || run)::uuid, 1, 'fill', now() - interval '80 days'
from generate_series(0, (%(actions)s - 1) / 10) as run;

insert into actions (action_id, run_id, step, slot, rev, kind, resource, params, request_hash, status, provider_id,
                     receipt, epoch, claims, claim_token, instance, deadline_at, first_sent_at, version, events, head,
                     created_at, updated_at)
select md5('action ' || n)::uuid, md5('run ' || n / 10)::uuid, 'pay', 'charge-' || n %% 10, 1, 'bench.opaque',
       'customers/cus_' || n %% 1000, '{"amount":4999,"customer":"cus_8815"}',
       encode(sha256(convert_to('request ' || n, 'UTF8')), 'hex'),
       case when open then 'UNKNOWN' else 'SUCCEEDED' end::action_status,
       case when not open then 'ch_' || n end,
       case when not open then json_build_object('charge', 'ch_' || n) end,
       1, 1, md5('claim ' || n)::uuid, md5('fill')::uuid, at + interval '35 seconds', at, 3, 3,
       encode(sha256(convert_to('event 3 of ' || n, 'UTF8')), 'hex'), at, at + interval '1 second'
from (select n, n %% (%(actions)s / 5) = %(actions)s / 10 as open, now() - interval '70 days' + n * interval '1 second' as at
      from generate_series(0, %(actions)s - 1) as n) as made;

insert into action_events (action_id, seq, word, from_status, to_status, epoch, instance, claim_token, recorded_at,
                           previous_hash, hash)
select a.action_id, seq, word, from_status::action_status, coalesce(to_status::action_status, a.status), 1, a.instance,
       case when seq > 1 then a.claim_token end, a.created_at,
       case when seq = 1 then repeat('0', 64) else encode(sha256(convert_to(seq - 1 || a.action_id::text, 'UTF8')), 'hex') end,
       case when seq = 3 then a.head else encode(sha256(convert_to(seq || a.action_id::text, 'UTF8')), 'hex') end
from actions a,
     (values (1, 'propose', null, 'PREPARED'), (2, 'claim', 'PREPARED', 'IN_FLIGHT'), (3, 'record', 'IN_FLIGHT', null))
         as e (seq, word, from_status, to_status)
where a.kind = 'bench.opaque';
