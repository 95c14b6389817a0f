"""Evaluation on fixed task panels and the summary of a run."""
