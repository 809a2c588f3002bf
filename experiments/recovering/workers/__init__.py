"""What runs in the processes of each system; they are started as `python -m experiments.recovering.workers.NAME`."""
