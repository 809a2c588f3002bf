"""Zombies: a driver falls silent past its lease, another one takes over, and the first one wakes up and goes on.

places     where to stop it: every recorded moment of a drive, with what the process was in the middle of
life       the life of a driver's process here, stopped by itself at its place
held       what the silent one holds in the database, seen from outside
rows       every row of every table, and which of them changed; who wrote them, by a witness in the database
case       one zombie, from its stop to its end
judging    what must hold, and what must have happened for a case to be evidence
controls   the same without the fence: plain LangGraph, and the product with the rule taken out. They must fail
long_steps a step that takes longer than the lease: with heartbeats, without them, and with no other thread running
campaign   all of it side by side; the verdict
report     table and JSON
"""
