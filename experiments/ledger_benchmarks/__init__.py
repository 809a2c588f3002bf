"""What the ledger costs, alone: one file per measurement, with the rounds and the report of `experiments.benchmarks`.

wire      HTTP as cheap as a client can be: a kept socket and ready-made bytes
service   the product's service in a process of its own, with kinds whose effect costs nothing
place     such a service over a database of its own
peers     the same action through the packages of others
fresh, replay, load, one_id, size    the measurements
"""
