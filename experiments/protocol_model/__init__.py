"""The protocol as a model: every order of events, explored exhaustively, for the protocol and for its known mistakes.

Read in this order:

    variant.py     what a variant of the protocol is
    variants.py    the protocol for each class of provider, and the list of all variants with the verdict of each
    mistakes.py    known mistakes: traps that ledgers fall into, and the mutants that the experiments plant
    first_variants.py  leases, fences and ids: the variants by which the design was found
    state.py       what a state holds: one run, its actions, drivers, hands of the services, requests in the air
    callers.py     what drivers do: take over, plan, call, checkpoint, crash
    services.py    what a service's hand does with a claim: check, write, give up, record, crash
    world.py       what the network and the provider do: deliver, refuse, lose, deliver twice, forget; time that passes
    settling.py    what look-ups and people do: ask, find, unsend, resolve, approve, withdraw, cancel, restore
    shortcuts.py   what no careful protocol does: sending without a ledger, performing again what is recorded
    rules.py       all of these together: the successors of a state
    invariants.py  what must hold in every state
    explore.py     breadth first, with the shortest trace to each violation, and the check that an end stays reachable
    paths.py       whether the history of a real action is a path of the model

A crash, a lost lease and a suspicion can come at any time, so time is not counted: what time decides (a deadline, the
life of a key, the settle window) is a step that can be taken as soon as its declared guarantees hold, or never.
"""
