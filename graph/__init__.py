"""WHAT the agent does: the StateGraph, its nodes, its state and its models."""
