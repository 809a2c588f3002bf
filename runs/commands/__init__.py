"""What each command of `onward` does; `runs.cli` says what it takes."""
