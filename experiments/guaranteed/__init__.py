"""The table of guarantees: every provider class under every fault, with real services, databases and an API.

Read in this order: rows (the classes and what they promise), service (the process under fault), stand (one cell's
world), faults (the columns), campaign (all cells), report (the table).
"""
