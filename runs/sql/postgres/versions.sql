-- Runs between workflow versions.

-- name: set_workflow_version
-- Behind lock_run and a new epoch in the same transaction, which also writes the migrated checkpoint.
update runs set workflow_version = %(target)s, version = version + 1, updated_at = onward_now()
where run_id = %(run_id)s and version = %(version)s and workflow_version = %(source)s
  and exists (select from leases l where l.run_id = runs.run_id and l.epoch = %(epoch)s::bigint);

-- name: unfinished_versions
-- How many runs of the agent have not ended, by workflow version; somebody's own graphs name other versions.
select workflow_version, count(*) as runs from runs where finished_at is null and kind <> 'graph'
group by workflow_version order by workflow_version;
