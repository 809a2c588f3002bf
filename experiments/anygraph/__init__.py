"""The same proof on somebody else's LangGraph graph: which of its nodes repeat an effect, where, and what to change.

Their file and their graph are loaded by `runs.foreign`. Read in this order; each file stands alone:

    request      what the command line asks for
    effects      what is counted in the world, and how
    units        their nodes, tasks and tools as operations, so that they can be killed before and after each
    storing      LangGraph's writes to its store, told apart from their code
    answers      which answer goes to which question of an interrupt
    steps        how a thread goes on: one rule, for invoke and ainvoke
    work         the whole life of one process of a case
    place        the folder and the Postgres that an experiment has
    ending       how such a process ends
    counting     effects that a function of theirs counts, in a process of its own
    lab          processes and effects of one thread
    attribution  a run without a fault, with the effects counted around every node
    stable       what two runs without a fault have in common
    reference    the runs without a fault: boundaries, effects, result
    case         one kill: what it did to the thread
    campaign     all kills, side by side, and the verdict
    advice       what to change
    report       table and JSON
    command      the options of the command line, and what it ends with
"""
