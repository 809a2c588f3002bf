"""What nodes may touch. `tools.action` is the only door to the outside world."""
