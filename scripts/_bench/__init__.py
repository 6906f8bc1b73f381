"""Measures ulpack and its peers on pairs of checkpoints; `scripts/bench` is the command."""
