"""The optimizer update and its checkpoints."""
