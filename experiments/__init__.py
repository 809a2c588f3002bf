"""PROOF: experiments that kill real processes, resume the run, and count what happened in the world.

Read in this order; each file stands alone:

    oracle      what happened in the world, written down by a process of its own
    story       what a process says about itself, line by line
    boundaries  the points where a process can be killed, and how a process notices that it passes one
    nemesis     the fault: how a process dies at a point
    workload    the run that is killed: the real graph with the real driver
    baselines/  the same graph without Onward, the control
    processes   real processes from a fork server
    cluster     Postgres, ledger and oracle in a temporary home, started and stopped by their pids
    evidence    all that is known about one case
    checker     the invariants, one function each
    campaign    the cases, the control, the verdict
    report      lines, table, JSON

No product code knows of any of this: points are reached by wrapping the product's classes from here.
"""
