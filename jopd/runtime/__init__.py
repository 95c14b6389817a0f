"""Threads of a run: explorers, weights, and the crew that watches them."""
