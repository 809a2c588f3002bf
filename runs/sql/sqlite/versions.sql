-- Runs between workflow versions.

-- name: set_workflow_version
-- Behind a new epoch in the same transaction, which also writes the migrated checkpoint.
update runs set workflow_version = :target, version = version + 1, updated_at = onward_now()
where run_id = :run_id and version = :version and workflow_version = :source
  and exists (select 1 from leases l where l.run_id = runs.run_id and l.epoch = :epoch);

-- name: unfinished_versions
-- How many runs of the agent have not ended, by workflow version; somebody's own graphs name other versions.
select workflow_version, count(*) as runs from runs where finished_at is null and kind <> 'graph'
group by workflow_version order by workflow_version;
