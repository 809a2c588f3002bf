"""An action ledger: performs external effects, keeps their receipts, replays them, and never guesses."""
