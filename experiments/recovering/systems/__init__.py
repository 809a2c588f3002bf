"""One file for each system, seen from outside; what runs in its processes has the same name in `workers/`."""
