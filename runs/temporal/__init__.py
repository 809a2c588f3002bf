"""Temporal as the outer engine: it says when a run is driven, Onward says how, and who may.

    workflow.py    one workflow per run, its id is the run's id: drive, wait, drive on, end with the outcome
    activities.py  what it asks for: `drive`, which heartbeats, and `cancel`
    tending.py     seeing to one run until it is left: start a driver, watch it, judge by the row
    worker.py      the process that serves both
    client.py      starting a workflow and signalling it
    values.py      what travels between them

Nothing of this is imported by the rest of Onward, and nothing but this folder imports `temporalio`. Who records, who
times out and who retries is in docs/engines.md.
"""
