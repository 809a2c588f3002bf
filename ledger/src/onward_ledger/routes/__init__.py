"""The routes, one file for each topic: plain functions over the ledger.

A route reads its request, asks whether the caller may, calls one method, and answers with the record. What can go wrong
is an error of `onward_ledger.errors`, told as problem details.
"""
