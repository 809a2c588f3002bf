"""Somebody's own compiled LangGraph graph under Onward's runs: epochs, fence, take-over, questions to people, cancel.

Read in this order; each file stands alone:

    errors       what keeps a graph from being run
    sources      their file and the files beside it that it imports: found by reading
    specs        `file.py:name` and langgraph.json: which graphs, in which folder, of which workflow version
    loading      their file imported, their graph compiled with another checkpointer
    plain        values of theirs as JSON, cut where they are long
    questions    what an interrupt asks a person, and which answers fit
    next_move    where a thread goes on: one rule
    recording    their nodes and model calls as events of the run
    workflow     all of it behind the interface that runs.drive drives
    serving      which graphs this process can drive
    answering    a person's answer: the first one stands
"""
