"""Small runs over many workers, for as long as you like, while everything under them is killed at random.

Read in this order; each file stands alone:

    steps       the workflow: four steps, two effects through the ledger at an API of the experiment
    worker      the product's worker with that workflow, ended with the experiment
    place       the home, the API, and how runs are made
    workers     so many workers, each started again when it has been killed
    feeding     runs at an even pace, and how many have ended
    faults      what is killed, and when: drawn by the seed
    watching    memory and open files of what lives long
    settling    what only a person can say about an effect: here by the API's log
    world       what stands in the end, by our own SQL and the API's log
    judging     what must hold of it
    campaign    all of it, one after the other
    results     what was seen, and what it says
    report      the same in words
"""
