"""Benchmarks: one file per measurement, each comparing Onward with the least that could do the same work."""
