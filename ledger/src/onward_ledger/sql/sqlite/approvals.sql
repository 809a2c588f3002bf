-- name: standing_decision
select * from decisions where action_id = :action_id and superseded_at is null

-- name: insert_decision
insert into decisions (decision_id, action_id, decision, principal, principal_asserted, request_hash, resource, scope,
                       reason, expires_at, decided_at, grant_id, successor_action_id, approvers)
values (:decision_id, :action_id, :decision, :principal, :principal_asserted, :request_hash,
        :resource, :scope, :reason, :expires_at, :now_at, :grant_id, :successor_action_id,
        :approvers)
returning *

-- name: consume_decision
update decisions set consumed_at = :now_at
where decision_id = :decision_id and consumed_at is null and superseded_at is null

-- name: supersede_decision
-- Only an approval that expired unused, or one that lacks its second approver.
update decisions set superseded_at = :now_at
where decision_id = :decision_id and decision = 'approve' and consumed_at is null
  and (expires_at <= :now_at or (approvers > 1 and seconded_by is null))

-- name: second_decision
-- The second approver, who is another person than the first.
update decisions set seconded_by = :principal, seconded_at = :now_at, expires_at = :expires_at
where decision_id = :decision_id and decision = 'approve' and seconded_by is null and principal <> :principal
  and superseded_at is null
returning *

-- name: revoke_decision
-- Only an approval that was not used.
update decisions set superseded_at = :now_at, revoked_by = :principal, revoked_reason = :reason
where decision_id = :decision_id and decision = 'approve' and consumed_at is null and superseded_at is null
returning *

-- name: last_decision
select * from decisions where action_id = :action_id order by decision_id desc limit 1

-- name: put_grant
-- The same person's grant for the same effects is one grant: asked for again it is the same, with this expiry and total.
insert into grants (grant_id, run_id, kind, resource, principal, principal_asserted, uses, expires_at, granted_at)
values (:grant_id, :run_id, :kind, :resource, :principal, :principal_asserted, :uses,
        :expires_at, onward_now())
on conflict (grant_id) do update
set uses = excluded.uses, expires_at = excluded.expires_at, revoked_at = null
returning *

-- name: usable_grant
-- The narrowest grant that covers the action.
select * from grants
where run_id = :run_id and kind = :kind and (resource is null or resource = :resource)
  and used < uses and revoked_at is null and expires_at > :now_at
order by (resource is null), expires_at, grant_id
limit 1

-- name: use_grant
update grants set used = used + 1 where grant_id = :grant_id and used < uses

-- name: revoke_grant
-- The first time stands.
update grants set revoked_at = coalesce(revoked_at, onward_now()) where grant_id = :grant_id
returning *

-- name: next_seq
-- Write transactions follow one another, so commit order is number order.
update feed_head set last_seq = last_seq + 1 returning last_seq

-- name: insert_feed
insert into feed (seq, what, run_id, action_id, decision_id, status, happened_at)
values (:seq, :what, :run_id, :action_id, :decision_id, :status, :now_at)

-- name: feed_after
select f.seq, f.what, f.run_id, f.action_id, f.status, f.happened_at, d.standing
from feed f left join decisions_seen d using (decision_id)
where f.seq > :after
order by f.seq
limit :limit
