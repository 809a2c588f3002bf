"""PROOF: experiments that kill real processes, resume the run, and count what happened in the world.

Read in this order; each file stands alone.

    What is tried
    boundaries     moments at which a process can be killed: a watch that numbers them, recordings, groups of them
    choke/         where a process touches the world: database, requests, files, children
    crash_points   the moments that have a name
    nemesis        the fault: exit, SIGKILL, SIGSTOP
    plan           which faults hit which processes of one run
    sweep          from recordings to plans; randomly: plans drawn by a seed
    mutants        the protocol with one rule taken out

    Where
    oracle         what happened in the world, written down by a process of its own (standing_server: its life)
    processes      real processes from a fork server; preload and warm_children: what it has imported
    cluster        Postgres, oracle and fork server in a temporary home; lane: a world of its own on it, with a ledger
    fake_api       an API that misbehaves on request (fake_api_server: its inside), with a log of what happened
    relay          one address for whichever process of the ledger serves
    observed_ledger, plain_provider   the ledger with a witness, and a provider that never notices a duplicate
    workload       the run that is killed; baselines/: the same graph without Onward, the control

    How a case goes
    case           processes that drive one run under a plan; misuse: what others do beside them
    recordings     runs without a fault that write down what they pass
    narrator, story   what a process says about itself, line by line
    write_order    checkpoints forced in front of the writes they hold
    look, evidence    all that is known about one case, seen from outside

    What comes of it
    checker        the invariants, one function each
    campaign       cases side by side (workers), with progress; the verdict
    results, report, page    figures and JSON; a table; a page with a cell for each case

    And
    demo           the first minute
    anygraph/      the same for somebody else's graph
    bench, benchmarks/    what it all costs
    peers_ledger, peers/  our ledger beside its peers: the same faults for all
    bench_ledger, ledger_benchmarks/    what the ledger costs, alone and beside its peers
    partitions, hosts/    workers, Postgres and the ledger on hosts of their own: cut apart, killed, filled up, healed
    recovery, recovering/    how fast and how correctly a run goes on when its driver or worker is killed, beside peers
    upgrade, upgrading/   a workflow version released while runs wait, and the old one taken out
    zombies, zombified/   drivers that fall silent past their lease, are replaced, and wake up again

No product code knows of any of this: points are reached by wrapping the product's classes from here.
"""
