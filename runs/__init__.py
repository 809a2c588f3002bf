"""WHO executes a run and WHEN: registry, lease, drive, command line."""
