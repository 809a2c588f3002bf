"""The commands of `onward-ledger`, one file for each topic."""
