"""Whether a long queue makes anything slower: runs a second, the gap between two runs, and what is asked all the time.

Read in this order; each file stands alone:

    backlog     a queue of so many runs, written by SQL as the product writes them
    looks       how long the sweeper's looks, the queue's fetch and a claim take beside that queue, and their plans
    rates       runs a second by so many workers, and how soon a slot that is free has its next run
    arrivals    how soon a run is taken that comes while others wait for their time
    campaign    all of it, in rounds
    results     medians, spreads, and the ratio of the longest queue to the shortest
    report      the same in words
"""
