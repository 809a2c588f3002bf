"""Separate hosts on one machine, and what may come between them.

network     hosts: network namespaces on a private bridge, each with its own address and host name
cuts        what lies between two hosts is cut, silently or with errors, and healed
postgres    a server on a host, on a small disk of its own; killed, filled up, started again
gate        a proxy in front of it that cuts connections around COMMIT
skew        a process whose clock is wrong
services    the ledger and the sink of effects on hosts of their own
worker      `onward worker` on a host
stand       all of that together, removed in the end
load        runs under way, and which worker drives them
faults      what happens to them: one function for each case
judging     what must hold afterwards
campaign    the cases one after the other; results: what they came to
report      the table
leftovers   what a killed experiment left behind
size        how large the stand is
"""
