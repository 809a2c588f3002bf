-- name: start_instance
insert into instances (instance, version, host, pid, started_at)
values (:instance, :version, :host, :pid, onward_now())

-- name: stop_instance
update instances set stopped_at = onward_now() where instance = :instance

-- name: gone_in_flight
-- Actions of another instance. The file lock lets one service run at a time, so every other instance is gone.
select action_id
from actions
where status = 'IN_FLIGHT' and instance <> :me and (:action_id is null or action_id = :action_id)
order by action_id
