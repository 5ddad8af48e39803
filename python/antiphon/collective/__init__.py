"""Collectives: one run, many side by side, several in flight, the best for each size."""
