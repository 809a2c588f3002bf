"""Our ledger beside its peers: the same provider, the same faults, the same plan for all.

provider       the world: a process of its own that performs charges and counts them in a fsynced log
order          what one process is told to do, and the moment at which a fault hits it
systems        what is compared; each of the following says in one file how a system is used:
               onward, sakrit, effect_ledger, exactly_once, agent_once, and unguarded, the control
columns        the plans: who is started, killed, stopped and woken, in which order
lab            real processes, and the database that they share
results        what is right, and the verdict
report         a table, and JSON
"""
